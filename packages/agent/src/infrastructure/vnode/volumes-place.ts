// Where the persistent volumes of a worker lie: in its own folder, or on a storage, in a folder that nobody else ever has. What a
// worker had that was replaced, or that a backup takes the place of, is never in the way of the next one.
//
//   FOLDER/clusters/<cluster>/vnodes/<name>/kubelet/gpve-volumes/<volume>      in its own
//   …/volumes-at                                                               BASE, where they are on a storage
//   BASE/vnodes/<name>/kubelet/gpve-volumes/<volume>                           there, below the same names as in an archive
import { randomUUID } from "node:crypto";
import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { basename, join } from "node:path";
import { AppError } from "@gpve/contracts/errors.ts";
import { VOLUMES_FOLDER } from "@gpve/domain/vcluster/vnode/local-volumes.ts";
import { writeFileAtomic } from "@gpve/kit/atomic-file.ts";

const NOTE = "volumes-at";
export const VNODES = "vnodes";

/** Below a cluster's folder, a base, or in an archive. */
export function volumesMember(vnode: string): string {
  return join(VNODES, vnode, "kubelet", VOLUMES_FOLDER);
}

/** `place`: the worker's folder; undefined = they are in it. */
export function volumesBase(place: string): string | undefined {
  const note = join(place, NOTE);
  return existsSync(note) ? readFileSync(note, "utf8").trim() : undefined;
}

export function volumesFolder(place: string): string {
  const base = volumesBase(place);
  return base === undefined
    ? join(place, "kubelet", VOLUMES_FOLDER)
    : join(base, volumesMember(basename(place)));
}

/** Before a worker starts. Once: what one has stays where it is. `storage`: the folder on it; absent: they are in its own. */
export function settleVolumes(place: string, cluster: string, storage: string | undefined): void {
  const isPlaced = volumesBase(place) !== undefined || namesIn(volumesFolder(place)).length > 0;
  if (storage !== undefined && !isPlaced) placeVolumes(place, cluster, storage);
  else requireVolumes(place);
}

/** From now on they are in a folder there that is this worker's alone. */
export function placeVolumes(place: string, cluster: string, storage: string): void {
  const base = join(storage, `${cluster}-${randomUUID()}`);
  mkdirSync(base, { recursive: true, mode: 0o700 });
  mkdirSync(join(base, volumesMember(basename(place))), { recursive: true, mode: 0o755 });
  mkdirSync(place, { recursive: true, mode: 0o700 });
  writeFileAtomic(join(place, NOTE), `${base}\n`);
}

/** A storage that is not what it was must not look like a worker without volumes. */
function requireVolumes(place: string): void {
  const base = volumesBase(place);
  if (base === undefined || existsSync(volumesFolder(place))) return;
  throw new AppError(
    "object.conflict",
    `the persistent volumes of ${basename(place)} are in ${base}, and that is not there: bring its storage back, or delete the cluster`,
  );
}

/** What a worker has on a storage stays, and is no more its own. */
export function leaveVolumes(place: string): void {
  rmSync(join(place, NOTE), { force: true });
}

/** Of a worker that is stopped, or that was put away. */
export function removeVolumes(place: string): void {
  const base = volumesBase(place);
  if (base !== undefined) rmSync(base, { recursive: true, force: true });
}

/** Of all workers below a folder of workers. */
export function removeAllVolumes(vnodes: string): void {
  for (const name of namesIn(vnodes)) removeVolumes(join(vnodes, name));
}

function namesIn(folder: string): readonly string[] {
  return existsSync(folder) ? readdirSync(folder) : [];
}
