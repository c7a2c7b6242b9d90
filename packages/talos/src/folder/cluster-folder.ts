// A cluster's file and what lies beside it: patches, secrets, the record of what was decided and applied.
import { dirname, isAbsolute, join, resolve } from "node:path";
import { AppError, messageOf } from "@gpve/contracts/errors.ts";
import { readTextFile } from "@gpve/kit/atomic-file.ts";
import type { Machine } from "../cluster/machine.ts";
import { machinesOf } from "../cluster/machines.ts";
import type { Cluster } from "../cluster/cluster.ts";
import { parseCluster } from "../cluster/parse-cluster.ts";
import type { PatchTexts } from "../render/machine-config.ts";
import { type ClusterLock, readLock } from "./lock-file.ts";
import { decidedVersions } from "./pinned-versions.ts";

export interface Surroundings {
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly homeDir: string;
  readonly cwd: string;
  readonly now: number;
}

export interface ClusterFolder {
  /** As the person named it. */
  readonly file: string;
  readonly folder: string;
  readonly text: string;
  readonly cluster: Cluster;
  readonly lock: ClusterLock;
  readonly machines: readonly Machine[];
  readonly patches: PatchTexts;
}

export function readClusterText(file: string, { cwd }: Pick<Surroundings, "cwd">): string {
  const text = readable(resolve(cwd, file), file);
  if (text !== undefined) return text;
  throw new AppError("object.not_found", `there is no file ${file}`, {
    data: { next: `Write one with: gpvectl talos init ${file}` },
  });
}

function readable(path: string, file: string): string | undefined {
  try {
    return readTextFile(path);
  } catch (err) {
    const { code } = err as NodeJS.ErrnoException;
    const why = code === "EISDIR" ? "it is a folder" : messageOf(err);
    throw new AppError("config.invalid", `${file} cannot be read: ${why}`, {
      cause: err,
      data: { next: "Name the cluster's file with -f." },
    });
  }
}

export function openClusterFolder(file: string, around: Surroundings): ClusterFolder {
  return clusterFolderOf(file, readClusterText(file, around), around);
}

/** `text` stands in the place of the file; a scratch cluster has none. */
export function clusterFolderOf(file: string, text: string, around: Surroundings): ClusterFolder {
  const alone = parseCluster(text, file, around.env);
  const folder = dirname(resolve(around.cwd, file));
  const lock = readLock(folder, alone.metadata.name);
  // What the file leaves open stays as it was decided, whatever newer versions would choose.
  const pins = decidedVersions(lock);
  const cluster = isAsPinned(alone, pins) ? alone : parseCluster(text, file, around.env, pins);
  return {
    file,
    folder,
    text,
    cluster,
    lock,
    machines: machinesOf(cluster, lock.machines),
    patches: readPatches(cluster, folder),
  };
}

const isAsPinned = (
  { versions }: Cluster,
  { contract, kubernetes }: ReturnType<typeof decidedVersions>,
): boolean =>
  (contract ?? versions.contract) === versions.contract &&
  (kubernetes ?? versions.kubernetes) === versions.kubernetes;

/** Files are named relative to cluster.yaml; those that are not there are told where they are used. */
function readPatches(cluster: Cluster, folder: string): PatchTexts {
  const named = [
    ...cluster.talos.patches,
    ...cluster.controlPlane.patches,
    ...cluster.pools.flatMap(({ patches }) => patches),
    ...Object.values(cluster.nodes).flatMap(({ patches }) => patches),
  ];
  return new Map(
    named.flatMap(({ file }) => {
      const text = readTextFile(isAbsolute(file) ? file : join(folder, file));
      return text === undefined ? [] : [[file, text] as const];
    }),
  );
}
