// A snapshot by what was typed: a file, or "s3:NAME" and "s3:latest" of the cluster's bucket.
import { resolve } from "node:path";
import { AppError } from "@gpve/contracts/errors.ts";
import type { SnapshotBucket } from "@gpve/talos/backup/snapshot-bucket.ts";
import type { ClusterFolder } from "@gpve/talos/folder/cluster-folder.ts";
import type { Cli } from "../../../command.ts";
import { around } from "../around.ts";

export interface FoundSnapshot {
  /** As people would name it. */
  readonly file: string;
  /** Decrypted, and whole. */
  readonly bytes: Buffer;
}

/** undefined: the file names no bucket. */
export async function snapshotBucket(
  cli: Cli,
  place: Pick<ClusterFolder, "cluster" | "folder">,
): Promise<SnapshotBucket | undefined> {
  const { openSnapshotBucket } = await import("@gpve/talos/backup/snapshot-bucket.ts");
  return openSnapshotBucket(place, around(cli), { fetch, now: () => cli.io.clock.now() });
}

/** Only what lies in a bucket needs the cluster's file. */
export async function findSnapshot(
  cli: Cli,
  named: string,
  open: () => Promise<ClusterFolder>,
): Promise<FoundSnapshot> {
  const [{ bucketName }, { openSnapshot, readSnapshot }] = await Promise.all([
    import("@gpve/talos/backup/snapshot-bucket.ts"),
    import("@gpve/talos/folder/snapshot-store.ts"),
  ]);
  const wanted = bucketName(named);
  if (wanted === undefined) {
    const file = resolve(cli.io.cwd, named);
    return { file, bytes: await readSnapshot(file, around(cli)) };
  }
  const place = await open();
  const bucket = await snapshotBucket(cli, place);
  if (bucket === undefined) {
    throw new AppError("config.invalid", `${place.file} names no bucket: backup.etcd.s3`, {
      data: { finding: "snapshot-target" },
    });
  }
  const { name, content } = await bucket.get(wanted);
  const file = `s3:${name}`;
  return { file, bytes: await openSnapshot(content, file, around(cli)) };
}
