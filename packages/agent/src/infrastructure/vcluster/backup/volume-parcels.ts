// Folders of volumes of a cluster's workers on this node, and those that other nodes have, for one archive.
//
//   FOLDER/clusters/<name>/vnodes/<vnode>/kubelet/gpve-volumes/<volume>/…
import { existsSync, lstatSync, mkdirSync, readdirSync, rmSync, statSync } from "node:fs";
import { join } from "node:path";
import { AppError, messageOf } from "@gpve/contracts/errors.ts";
import type { OtherVolumes, SaveWork } from "@gpve/domain/vcluster/backup/cluster-saves.ts";
import type { VolumeParcel, VolumeSource } from "@gpve/domain/vcluster/backup/cluster-volumes.ts";
import type { Exec } from "@gpve/kit/exec.ts";
import { createPlainFile } from "@gpve/kit/held-file.ts";
import { VNODES, volumesBase, volumesMember } from "../../vnode/volumes-place.ts";
import { bytesOf } from "../plain-bytes.ts";
import { type ArchivePart, writeArchive } from "./pack-archive.ts";
import { unpackArchive } from "./unpack-archive.ts";
import type { VolumeFolder } from "./volume-folder.ts";
import { requireNotHollow } from "./volume-holes.ts";

/** Of workers, also of those in pools. */
export const VNODE_NAME = /^[a-z](?:[a-z0-9-]{0,60}[a-z0-9])?-\d+$/;

/** Of workers of this node that have any, below the folder of a cluster or on a storage. */
export function ownVolumeFolders(folder: string): readonly VolumeFolder[] {
  return volumeFolders(folder, (vnode) => volumesBase(join(folder, VNODES, vnode)) ?? folder);
}

/** Of workers that have any, below that folder alone: what it says of others is somebody else's word. */
export function volumeFolders(
  folder: string,
  baseOf: (vnode: string) => string = () => folder,
): readonly VolumeFolder[] {
  return namesIn(join(folder, VNODES))
    .filter((vnode) => VNODE_NAME.test(vnode))
    .map((vnode) => {
      const [base, member] = [baseOf(vnode), volumesMember(vnode)];
      return { vnode, folder: base, member, names: namesIn(join(base, member)) };
    })
    .filter(({ names }) => names.length > 0);
}

export class FileVolumeParcels implements VolumeSource {
  readonly #deps: { readonly folder: string; readonly exec: Exec; readonly newId: () => string };

  /** `folder`: DIR/vclusters. */
  constructor(deps: { readonly folder: string; readonly exec: Exec; readonly newId: () => string }) {
    this.#deps = deps;
  }

  async pack(cluster: string, signal: AbortSignal): Promise<VolumeParcel> {
    const { folder, exec, newId } = this.#deps;
    const place = join(folder, "clusters", cluster);
    if (!existsSync(join(place, "cluster.json")))
      throw new AppError("object.not_found", `this node has nothing of virtual cluster '${cluster}'`);
    const found = ownVolumeFolders(place);
    const path = join(place, "saves", `parcel-${newId()}.tar.gz`);
    const close = async (): Promise<void> => rmSync(path, { force: true });
    if (found.length === 0) return { size: 0, body: nothing(), close };
    await requireNotHollow(exec, place, found, signal);
    mkdirSync(join(place, "saves"), { recursive: true, mode: 0o700 });
    await writeArchive(exec, path, partsOf(found), signal);
    return { size: statSync(path).size, body: bytesOf(path), close };
  }
}

/** As an archive has them. */
export function partsOf(found: readonly VolumeFolder[]): readonly ArchivePart[] {
  return found.map(({ folder, member }) => ({ folder, members: [member] }));
}

/** What other nodes have, below a folder of ours. Whoever is away is told of; what is missing then is looked for by the caller. */
export async function fetchVolumes(
  folder: string,
  others: readonly OtherVolumes[],
  { signal, say }: SaveWork,
): Promise<readonly VolumeFolder[]> {
  mkdirSync(folder, { recursive: true, mode: 0o700 });
  for (const { node, open } of others) {
    const path = join(folder, "parcel.tar.gz");
    try {
      const parcel = await open(signal);
      try {
        if (parcel.size === 0) continue;
        await writeAll(path, parcel.body);
      } finally {
        await parcel.close();
      }
      await unpackArchive(path, folder, [VNODES], signal);
      say(`node ${node} has sent its volumes`);
    } catch (err) {
      signal.throwIfAborted();
      say(`node ${node} could not be asked for its volumes: ${messageOf(err)}`);
    } finally {
      rmSync(path, { force: true });
    }
  }
  const found = volumeFolders(folder);
  for (const { member, vnode, names } of found) {
    const kubelet = join(VNODES, vnode, "kubelet");
    const way = [VNODES, join(VNODES, vnode), kubelet, member, ...names.map((name) => join(member, name))];
    if (!way.every((each) => isFolder(join(folder, each))))
      throw new AppError("request.invalid", `a node has sent volumes of '${vnode}' that are no folders`);
  }
  return found;
}

/** In a forged archive it could be a link to somebody else's files. */
export function isFolder(path: string): boolean {
  return lstatSync(path, { throwIfNoEntry: false })?.isDirectory() === true;
}

export function namesIn(folder: string): readonly string[] {
  return existsSync(folder) ? readdirSync(folder).toSorted() : [];
}

async function* nothing(): AsyncGenerator<Uint8Array> {}

async function writeAll(path: string, body: AsyncIterable<Uint8Array>): Promise<void> {
  const file = await createPlainFile(path, 0o600);
  try {
    for await (const chunk of body) await file.writeFile(chunk);
  } finally {
    await file.close();
  }
}
