// Snapshots of etcd: verified, encrypted for the cluster's recipients, the newest kept.
import { createHash } from "node:crypto";
import { mkdirSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { join } from "node:path";
import { AppError, messageOf } from "@gpve/contracts/errors.ts";
import { writeFileAtomic } from "@gpve/kit/atomic-file.ts";
import type { Cluster } from "../cluster/cluster.ts";
import { snapshotFolder } from "../engine/open-cluster.ts";
import { decryptAge, encryptAge, isAgeText } from "../secrets/age-text.ts";
import { findAgeKeys } from "../secrets/age-keys.ts";
import type { SnapshotBucket } from "../backup/snapshot-bucket.ts";
import type { Surroundings } from "./cluster-folder.ts";
import type { ClusterLock } from "./lock-file.ts";

const HASH_BYTES = 32;

/** Refuses (operation.failed) what was cut off or changed: etcd ends a snapshot with the hash of the rest. */
export function verifySnapshot(bytes: Buffer, what: string): void {
  const hash = createHash("sha256").update(bytes.subarray(0, -HASH_BYTES)).digest();
  if (bytes.length > HASH_BYTES && bytes.subarray(-HASH_BYTES).equals(hash)) return;
  const why =
    bytes.length <= HASH_BYTES
      ? `it has ${bytes.length} bytes`
      : `its ${bytes.length} bytes do not end with the SHA-256 of the rest`;
  throw new AppError("operation.failed", `${what} is no snapshot of etcd, or it is damaged: ${why}`, {
    data: { finding: "snapshot-damaged", next: "Use another one. Nothing was changed." },
  });
}

export async function keepSnapshot(
  place: { readonly folder: string; readonly cluster: Cluster },
  bytes: Buffer,
  now: number,
  /** Where it is to lie beside here; asked for only when the file says so. */
  bucket?: () => Promise<Pick<SnapshotBucket, "put"> | undefined>,
): Promise<NonNullable<ClusterLock["snapshot"]>> {
  verifySnapshot(bytes, "what the machine sent");
  const { folder, cluster } = place;
  const { encrypt, to } = cluster.backup.etcd;
  const keep = to.includes("dir") ? cluster.backup.etcd.keep : 1;
  const target = snapshotFolder(folder, cluster.metadata.name);
  mkdirSync(target, { recursive: true, mode: 0o700 });
  const isSealed = encrypt === "age" && cluster.secrets.recipients.length > 0;
  const name = `etcd-${new Date(now).toISOString().replaceAll(/[-:]/g, "")}.snapshot${isSealed ? ".age" : ""}`;
  const content = isSealed ? await encryptAge(bytes, cluster.secrets.recipients) : bytes;
  writeFileAtomic(join(target, name), content);
  if (to.includes("s3")) await (await bucket?.())?.put(name, Buffer.from(content));
  const sha256 = createHash("sha256").update(bytes).digest("hex");
  const all = readdirSync(target)
    .filter((file) => file.startsWith("etcd-"))
    .toSorted();
  for (const old of all.slice(0, -keep)) rmSync(join(target, old), { force: true });
  return { at: now, file: join(target, name), sha256 };
}

export function readSnapshot(file: string, around: Surroundings): Promise<Buffer> {
  return openSnapshot(fileContent(file), file, around);
}

function fileContent(file: string): Buffer {
  try {
    return readFileSync(file);
  } catch (err) {
    const isMissing = (err as NodeJS.ErrnoException).code === "ENOENT";
    const why = isMissing ? `there is no file ${file}` : `${file} cannot be read: ${messageOf(err)}`;
    throw new AppError(isMissing ? "object.not_found" : "config.invalid", why, {
      cause: err,
      data: { finding: "snapshot-missing", next: "Name one that is there. Nothing was changed." },
    });
  }
}

export async function openSnapshot(content: Buffer, file: string, around: Surroundings): Promise<Buffer> {
  const text = content.subarray(0, 64).toString("latin1");
  if (!isAgeText(text)) {
    verifySnapshot(content, file);
    return content;
  }
  const { identities } = await findAgeKeys(around);
  const bytes = await decryptAge(content.toString("utf8"), identities, file);
  if (bytes === undefined) {
    throw new AppError("access.denied", `no key here opens ${file}`, { data: { finding: "age-key-wrong" } });
  }
  verifySnapshot(bytes, file);
  return bytes;
}
