// Files that are mostly holes. An archive has every byte of a file, also those that take no room: whoever makes one of 16 TiB of
// nothing in his volume would have it read and packed for a day.
import { join } from "node:path";
import { AppError } from "@gpve/contracts/errors.ts";
import type { Exec } from "@gpve/kit/exec.ts";
import { VnodeVolumes } from "../../vnode/vnode-volumes.ts";
import { VNODES } from "../../vnode/volumes-place.ts";
import type { VolumeFolder } from "./volume-folder.ts";

/** What is packed in minutes. A database that makes room for itself has less, and so has what a filesystem makes smaller. */
const HOLES_BYTES = 64 * 2 ** 30;
const LOOK_MS = 3_600_000;

/** `place`: the cluster's folder. All its volumes on this node together: where many have a little it is as much. */
export async function requireNotHollow(
  exec: Exec,
  place: string,
  found: readonly VolumeFolder[],
  signal: AbortSignal,
): Promise<void> {
  const volumes = found.flatMap(({ vnode, folder, member, names }) =>
    names.map((name) => ({ title: `${name} of ${vnode}`, path: join(folder, member, name) })),
  );
  const claimed = found
    .map(({ vnode }) => new VnodeVolumes(join(place, VNODES, vnode), exec).bytes())
    .reduce((sum, bytes) => sum + bytes, 0);
  const most = Math.max(claimed, HOLES_BYTES);
  const paths = volumes.map(({ path }) => path);
  const sizes = await measured(exec, paths, ["--apparent-size"], signal);
  if (total(sizes.values()) <= most) return;
  const blocks = await measured(exec, paths, [], signal);
  const holes = volumes.map(({ title, path }) => {
    const bytes = sizes.get(path) ?? 0;
    return { title, bytes, holes: Math.max(0, bytes - (blocks.get(path) ?? 0)) };
  });
  if (total(holes.map((each) => each.holes)) <= most) return;
  const [worst] = holes.toSorted((a, b) => b.holes - a.holes);
  throw new AppError(
    "feature.unsupported",
    `persistent volume ${worst?.title} has files of ${worst?.bytes} bytes, of which ${worst?.holes} are holes, and an archive has all of them: make such files smaller, or remove them (du --apparent-size finds them)`,
  );
}

function total(numbers: Iterable<number>): number {
  return [...numbers].reduce((sum, each) => sum + each, 0);
}

/** Bytes of each. The host's own program is not led astray by what pods do to their folders meanwhile. */
async function measured(
  exec: Exec,
  paths: readonly string[],
  more: readonly string[],
  signal: AbortSignal,
): Promise<ReadonlyMap<string, number>> {
  if (paths.length === 0) return new Map();
  const how = ["--summarize", "--one-file-system", "--null", "--block-size=1", ...more];
  const { stdout } = await exec("du", [...how, "--", ...paths], {
    signal,
    timeoutMs: LOOK_MS,
    diesWithUs: true,
    // 1: a file was gone before it was looked at.
    okCodes: [0, 1],
  });
  const rows = stdout.split("\0").filter((row) => row !== "");
  return new Map(
    rows.map((row) => {
      const at = row.indexOf("\t");
      return [row.slice(at + 1), Number(row.slice(0, at))];
    }),
  );
}
