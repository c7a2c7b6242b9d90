// What was decided about a cluster and must not change by itself: who has which VMID and address, and whether anything
// was ever applied. It lies in .deployer/<cluster>/lock.json beside cluster.yaml.
import { existsSync, mkdirSync, readdirSync } from "node:fs";
import { dirname, join } from "node:path";
import { AppError, messageOf } from "@gpve/contracts/errors.ts";
import { readTextFile, writeFileAtomic } from "@gpve/kit/atomic-file.ts";
import { Ajv2020 } from "ajv/dist/2020.js";
import { type Static, Type } from "typebox";

const lockSchema = Type.Object({
  version: Type.Literal(1),
  cluster: Type.String(),
  /** When the first machine got its configuration; null before. */
  appliedAt: Type.Union([Type.String(), Type.Null()]),
  contract: Type.Union([Type.String(), Type.Null()]),
  machines: Type.Record(
    Type.String(),
    Type.Object({
      provider: Type.String(),
      host: Type.String(),
      vmid: Type.Integer({ minimum: 100 }),
      addresses: Type.Array(Type.String()),
    }),
  ),
  /** SHA-256 of images that were uploaded or fetched, by name. */
  images: Type.Optional(Type.Record(Type.String(), Type.String())),
  /** Images that the platform fetched and that are held to nothing, for they could not be read from here. */
  unpinned: Type.Optional(Type.Record(Type.String(), Type.Object({ at: Type.String(), why: Type.String() }))),
  /** Where etcd was begun; doneAt is null from right before it was asked for until it was seen. */
  beginning: Type.Optional(
    Type.Object({ machine: Type.String(), doneAt: Type.Union([Type.String(), Type.Null()]) }),
  ),
  /** Machines that are to be made anew, in this order. */
  replacing: Type.Optional(Type.Array(Type.String())),
  /** Machines that are to be wiped and configured anew, in this order. */
  resetting: Type.Optional(Type.Array(Type.String())),
  /** SHA-256 of the cluster's id: machines of one id find each other, whatever their file is called. */
  identity: Type.Optional(Type.String()),
  /** The last snapshot of etcd that was verified. */
  snapshot: Type.Optional(Type.Object({ at: Type.Integer(), file: Type.String(), sha256: Type.String() })),
  /** The last snapshot that a scratch cluster was brought up from. */
  drill: Type.Optional(Type.Object({ at: Type.Integer(), file: Type.String(), sha256: Type.String() })),
  /** Fingerprints of authorities that were replaced: files of people may still name them. */
  formerAuthorities: Type.Optional(Type.Array(Type.String())),
  /** The VIP of endpoint.front, from before the first machine gets it until none has it any more. */
  front: Type.Optional(Type.String()),
  /** Of a scratch cluster: the SHA-256 of the snapshot that it begins from. */
  restoring: Type.Optional(Type.String()),
});

export type ClusterLock = Static<typeof lockSchema>;

export const lockPath = (folder: string, cluster: string): string =>
  join(folder, ".deployer", cluster, "lock.json");

export function readLock(folder: string, cluster: string): ClusterLock {
  const path = lockPath(folder, cluster);
  const text = lockText(path);
  if (text === undefined) return { version: 1, cluster, appliedAt: null, contract: null, machines: {} };
  const lock = parsed(text);
  if (lock === undefined) throw damaged(path, "");
  if (lock.cluster !== cluster) {
    throw new AppError(
      "object.conflict",
      `${path} belongs to the cluster ${lock.cluster}, not to ${cluster}`,
      {
        data: { finding: "lock-of-another", next: "Put the right one there. Nothing was changed." },
      },
    );
  }
  return lock;
}

function lockText(path: string): string | undefined {
  try {
    return readTextFile(path);
  } catch (err) {
    throw damaged(path, `: ${messageOf(err)}`);
  }
}

const damaged = (path: string, why: string): AppError =>
  new AppError("config.invalid", `${path} is no lock file that can be read${why}`, {
    data: { finding: "lock-damaged", next: "Take it from a backup. It was left as it is." },
  });

export function writeLock(folder: string, lock: ClusterLock): void {
  const path = lockPath(folder, lock.cluster);
  mkdirSync(dirname(path), { recursive: true, mode: 0o700 });
  writeFileAtomic(path, `${JSON.stringify(lock, null, 2)}\n`);
}

function parsed(text: string): ClusterLock | undefined {
  try {
    const value: unknown = JSON.parse(text);
    return new Ajv2020({ strict: false }).validate(lockSchema, value) ? (value as ClusterLock) : undefined;
  } catch {
    return undefined;
  }
}

/** Clusters beside this one in the same folder; what cannot be read is nobody's. */
export function clustersBeside(folder: string, cluster: string): readonly ClusterLock[] {
  const deployer = join(folder, ".deployer");
  const names = existsSync(deployer) ? readdirSync(deployer) : [];
  return names
    .filter((name) => name !== cluster)
    .flatMap((name) => {
      const lock = parsed(readTextFile(lockPath(folder, name)) ?? "");
      return lock === undefined ? [] : [lock];
    });
}
