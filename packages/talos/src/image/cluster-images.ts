// Images of one cluster as its steps ask for them: what was learnt of each stands in the lock before it is relied on.
import { join } from "node:path";
import { AppError } from "@gpve/contracts/errors.ts";
import type { ImageSource, LocalImage } from "../driver/driver.ts";
import type { ClusterFolder } from "../folder/cluster-folder.ts";
import { type ClusterLock, lockPath } from "../folder/lock-file.ts";
import { withoutPin, withPin } from "./image-pins.ts";
import { imageSource, type WantedImage } from "./image-source.ts";
import type { ArchiveRequest } from "./unpack-archive.ts";
import type { UrlDigest } from "./url-digest.ts";

export interface ImageWays {
  /** Makes an image's schematic known where it is fetched; returns from where. */
  readonly prepareImage: (url: string) => Promise<string>;
  readonly unpackArchive?: (request: ArchiveRequest) => Promise<void>;
  readonly urlDigest?: UrlDigest;
}

export interface ClusterImagesDeps extends ImageWays {
  readonly place: Pick<ClusterFolder, "cluster" | "folder">;
  readonly lock: () => ClusterLock;
  readonly change: (change: (lock: ClusterLock) => ClusterLock) => void;
  readonly now: () => number;
  readonly signal?: AbortSignal | undefined;
}

export type ImageSources = (
  image: WantedImage,
  tell: (note: string) => void,
) => Promise<ImageSource | LocalImage>;

export function clusterImages(deps: ClusterImagesDeps): ImageSources {
  const { lock, change, now, signal } = deps;
  return (image, tell) =>
    imageSource(image, {
      ...sourceWays(deps, tell, signal),
      pinOf: (name) => lock().images?.[name],
      pin: (name, sha256) => change((before) => withPin(before, name, sha256)),
      leaveUnpinned: (name, why) => {
        tell(`it is not pinned: ${why}`);
        change((before) => withoutPin(before, name, new Date(now()).toISOString(), why));
      },
      signal,
    });
}

/** How bytes of an image are come by. */
export function sourceWays(
  {
    place: { cluster, folder },
    prepareImage,
    unpackArchive = noArchives,
    urlDigest = noDigests,
  }: Pick<ClusterImagesDeps, "place"> & ImageWays,
  tell: (note: string) => void,
  signal?: AbortSignal,
) {
  return {
    cluster,
    folder,
    prepare: prepareImage,
    work: join(lockPath(folder, cluster.metadata.name), "..", "images"),
    unpack: unpackArchive,
    digest: (url: string) => urlDigest({ url, tell, signal }),
  };
}

const noArchives = (): Promise<never> =>
  Promise.reject(new AppError("internal.error", "nobody was given who unpacks archives"));
const noDigests: UrlDigest = () => Promise.reject(new Error("nobody was given who reads it from here"));
