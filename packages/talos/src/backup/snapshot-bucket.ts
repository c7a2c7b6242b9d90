// Snapshots of one cluster in a bucket: under its own name, the newest kept.
import { AppError } from "@gpve/contracts/errors.ts";
import type { Cluster } from "../cluster/cluster.ts";
import type { Surroundings } from "../folder/cluster-folder.ts";
import { readReference, type SecretReference } from "../secrets/secret-reference.ts";
import { S3Bucket, type S3Deps } from "./s3-bucket.ts";

interface Place {
  readonly cluster: Cluster;
  readonly folder: string;
}

/** Before the name of a snapshot that lies in the bucket; "s3:latest" is the newest. */
const SCHEME = "s3:";

export class SnapshotBucket {
  readonly #bucket: S3Bucket;
  readonly #folder: string;
  readonly #keep: number;

  constructor(bucket: S3Bucket, folder: string, keep: number) {
    this.#bucket = bucket;
    this.#folder = folder;
    this.#keep = keep;
  }

  /** What is older than those that are kept goes once the new one is there. */
  async put(name: string, content: Uint8Array): Promise<void> {
    await this.#bucket.put(this.#folder + name, content);
    const names = await this.names();
    for (const old of names.slice(0, -this.#keep)) await this.#bucket.delete(this.#folder + old);
  }

  /** Oldest first. */
  async names(): Promise<readonly string[]> {
    const keys = await this.#bucket.list(`${this.#folder}etcd-`);
    return keys.map((key) => key.slice(this.#folder.length));
  }

  async get(asked: string): Promise<{ readonly name: string; readonly content: Buffer }> {
    const names = await this.names();
    const name = asked === "latest" ? names.at(-1) : names.find((each) => each === asked);
    if (name !== undefined) return { name, content: await this.#bucket.get(this.#folder + name) };
    const there = names.slice(-5).join(", ") || "none";
    throw new AppError(
      "object.not_found",
      `there is no snapshot ${asked} in the bucket; the newest are ${there}`,
      {
        data: { finding: "snapshot-target" },
      },
    );
  }
}

/** undefined: the file names none. */
export async function openSnapshotBucket(
  { cluster, folder }: Place,
  around: Surroundings,
  deps: S3Deps,
): Promise<SnapshotBucket | undefined> {
  const { s3, keep } = cluster.backup.etcd;
  if (s3 === undefined) return undefined;
  const read = (reference: unknown) => readReference(reference as SecretReference, folder, around);
  const keys = { accessKey: await read(s3.accessKeyRef), secretKey: await read(s3.secretKeyRef) };
  return new SnapshotBucket(new S3Bucket(s3, keys, deps), `${s3.prefix}${cluster.metadata.name}/`, keep);
}

/** The name after "s3:"; undefined for a file. */
export const bucketName = (text: string): string | undefined =>
  text.startsWith(SCHEME) ? text.slice(SCHEME.length) : undefined;
