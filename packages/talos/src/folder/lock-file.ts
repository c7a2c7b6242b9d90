// What was decided about a cluster and must not change by itself: who has which VMID and address, and whether anything
// was ever applied. It lies in .deployer/<cluster>/lock.json beside cluster.yaml.
import { join } from "node:path";
import { AppError } from "@gpve/contracts/errors.ts";
import { readTextFile } from "@gpve/kit/atomic-file.ts";
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
});

export type ClusterLock = Static<typeof lockSchema>;

export const lockPath = (folder: string, cluster: string): string =>
  join(folder, ".deployer", cluster, "lock.json");

export function readLock(folder: string, cluster: string): ClusterLock {
  const path = lockPath(folder, cluster);
  const text = readTextFile(path);
  if (text === undefined) return { version: 1, cluster, appliedAt: null, contract: null, machines: {} };
  const lock = parsed(text);
  if (lock === undefined) {
    throw new AppError("config.invalid", `${path} is no lock file that can be read`, {
      data: { finding: "lock-damaged", next: "Take it from a backup. It was left as it is." },
    });
  }
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

function parsed(text: string): ClusterLock | undefined {
  try {
    const value: unknown = JSON.parse(text);
    return new Ajv2020({ strict: false }).validate(lockSchema, value) ? (value as ClusterLock) : undefined;
  } catch {
    return undefined;
  }
}
