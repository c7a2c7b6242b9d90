import { createHash } from "node:crypto";
import { basename } from "node:path";
import { AppError } from "@gpve/contracts/errors.ts";
import type { Cli, CommandSpec } from "../../../command.ts";
import type { ClusterFolder } from "@gpve/talos/folder/cluster-folder.ts";
import { explaining, fileOf, fileOption, openFolder } from "../around.ts";
import { findSnapshot } from "./find-snapshot.ts";
import { takeOverOption, withMark } from "../mark.ts";
import { needSecrets, withOpenCluster } from "../open.ts";

export const talosEtcdSnapshot: CommandSpec = {
  name: "talos etcd snapshot",
  summary: "take a snapshot of etcd, verified and encrypted",
  details:
    "It lies in .deployer/CLUSTER/snapshots, and in the bucket of backup.etcd.s3 where backup.etcd.to names s3; backup.etcd.keep says how many are kept. With the secrets file it is all that a cluster's state can be brought back from.",
  options: [
    fileOption,
    { flags: "--verify", about: "read it back, decrypt it and check it; your age key must be here" },
  ],
  examples: ["talos etcd snapshot", "talos etcd snapshot --verify"],
  doing: (input) => `take a snapshot of ${fileOf(input)}`,
  run: (cli, input) =>
    explaining(cli, async () => {
      const place = await openFolder(cli, input);
      const secrets = await needSecrets(cli, place);
      const { file, sha256 } = await withOpenCluster(cli, place, secrets, ({ cluster }) =>
        cluster.snapshot(),
      );
      const isVerified = input.flag("verify");
      if (isVerified) await checkedSnapshot(cli, file, sha256, place);
      if (isVerified && place.cluster.backup.etcd.to.includes("s3"))
        await checkedSnapshot(cli, `s3:${basename(file)}`, sha256, place);
      if (cli.out.forPeople) cli.out.done(`Wrote ${file}${isVerified ? ", and read it back" : ""}.`);
      else cli.out.data({ file, sha256, isVerified });
    }),
};

export const talosEtcdVerify: CommandSpec = {
  name: "talos etcd verify",
  summary: "check that a snapshot can be opened and is whole",
  details:
    "Decrypts it with your age key and checks the hash that etcd ends a snapshot with. Without a file, the newest one of the cluster, which must also be the one that was written down. Ends with 1 when it cannot be used.",
  arguments: [{ name: "[snapshot]", about: "the file, plain or encrypted, or s3:NAME, s3:latest" }],
  options: [fileOption],
  examples: ["talos etcd verify", "talos etcd verify s3:latest", "talos etcd verify etcd.snapshot.age"],
  doing: (input) => `verify a snapshot of ${fileOf(input)}`,
  run: (cli, input) =>
    explaining(cli, async () => {
      const named = input.optionalArg("snapshot");
      const known = named === undefined ? (await openFolder(cli, input)).lock.snapshot : undefined;
      const file = named ?? known?.file;
      if (file === undefined)
        throw new AppError("object.not_found", "no snapshot was taken yet: gpvectl talos etcd snapshot");
      const sha256 = await checkedSnapshot(cli, file, known?.sha256, () => openFolder(cli, input));
      if (cli.out.forPeople) cli.out.done(`${file} is whole (SHA-256 ${sha256}).`);
      else cli.out.data({ file, sha256, at: known?.at ?? null });
    }),
};

/** Its hash; refuses (operation.failed) what is not the one that was written down. */
async function checkedSnapshot(
  cli: Cli,
  file: string,
  wanted: string | undefined,
  place: ClusterFolder | (() => Promise<ClusterFolder>),
): Promise<string> {
  const found = await findSnapshot(cli, file, async () => (typeof place === "function" ? place() : place));
  const sha256 = createHash("sha256").update(found.bytes).digest("hex");
  if (wanted === undefined || sha256 === wanted) return sha256;
  throw new AppError("operation.failed", `${file} is not the snapshot that was taken`, {
    data: { finding: "snapshot-damaged" },
  });
}

export const talosEtcdRestore: CommandSpec = {
  name: "talos etcd restore",
  summary: "begin etcd from a snapshot, where it is gone",
  details:
    "Refused while etcd runs, or a control plane may still have its data. Machines must be configured: make them with apply, which stops at etcd-lost, then restore, then apply again for the others to join.",
  arguments: [{ name: "<snapshot>", about: "the file, plain or encrypted, or s3:NAME, s3:latest" }],
  options: [fileOption, takeOverOption],
  examples: [
    "talos etcd restore s3:latest",
    "talos etcd restore .deployer/prod/snapshots/etcd-20260102T030405.000Z.snapshot.age",
  ],
  doing: (input) => `restore etcd of ${fileOf(input)}`,
  run: (cli, input) =>
    explaining(cli, async () => {
      const place = await openFolder(cli, input);
      const { takeLease } = await import("@gpve/talos/folder/lease.ts");
      const { bytes } = await findSnapshot(cli, input.arg("snapshot"), async () => place);
      const secrets = await needSecrets(cli, place);
      const lease = takeLease(place.folder, place.cluster.metadata.name);
      try {
        const machine = await withOpenCluster(cli, place, secrets, (opened) =>
          withMark(cli, input, place, opened, () => opened.cluster.restore(bytes)),
        );
        cli.out.done(
          `etcd begins from the snapshot on ${machine}. Now: gpvectl talos apply -f ${place.file}`,
        );
      } finally {
        lease.release();
      }
    }),
};
