// What images are held to: the SHA-256 that the file says, else the one of the first use, which the lock has.
import type { Cluster } from "../cluster/cluster.ts";
import type { Machine } from "../cluster/machine.ts";
import type { ClusterLock } from "../folder/lock-file.ts";
import { type Finding, warning } from "../preflight/finding-report.ts";
import { type ImageFile, imageFile, ownSum } from "./image-file.ts";

export interface HeldImage extends ImageFile {
  readonly sha256: string | undefined;
  readonly heldBy: "file" | "lock" | undefined;
  /** The platform fetched it, and nobody knew what it was to be. */
  readonly unpinned: NonNullable<ClusterLock["unpinned"]>[string] | undefined;
}

/** Those that the file's machines are made from. */
export function heldImages(
  cluster: Cluster,
  machines: readonly Machine[],
  { images = {}, unpinned = {} }: Pick<ClusterLock, "images" | "unpinned">,
): readonly HeldImage[] {
  const files = machines.map(({ arch, extensions }) => imageFile(cluster, arch, extensions));
  return [...new Map(files.map((file) => [file.name, file])).values()].map((file) => {
    const own = ownSum(cluster, file.name);
    const sha256 = own ?? images[file.name];
    const heldBy = own !== undefined ? "file" : sha256 !== undefined ? "lock" : undefined;
    return { ...file, sha256, heldBy, unpinned: sha256 === undefined ? unpinned[file.name] : undefined };
  });
}

export function unpinnedImages(
  cluster: Cluster,
  machines: readonly Machine[],
  lock: Pick<ClusterLock, "images" | "unpinned">,
): readonly Finding[] {
  return heldImages(cluster, machines, lock).flatMap(({ name, unpinned }) =>
    unpinned === undefined ? [] : [warning("image-not-pinned", name, `at ${unpinned.at} ${unpinned.why}`)],
  );
}

export function withPin(lock: ClusterLock, name: string, sha256: string): ClusterLock {
  const { [name]: known, ...others } = lock.unpinned ?? {};
  const next = { ...lock, images: { ...lock.images, [name]: sha256 } };
  return known === undefined ? next : { ...next, unpinned: others };
}

export const withoutPin = (lock: ClusterLock, name: string, at: string, why: string): ClusterLock => ({
  ...lock,
  unpinned: { ...lock.unpinned, [name]: { at, why } },
});
