import { resolve } from "node:path";
import { AppError } from "@gpve/contracts/errors.ts";
import type { CommandSpec } from "../../../command.ts";
import { explaining, fileOf, fileOption, jsonOption, openFolder } from "../around.ts";

export const talosBackupFiles: CommandSpec = {
  name: "talos backup files",
  summary: "copy all that a cluster is managed by to another folder",
  details:
    "Its file, patches, the sealed secrets, the lock, the journal and what its add-ons are held to, with the SHA-256 of each. Nothing in it is readable without the age key, which is not part of it: keep that elsewhere. The same is kept in .deployer/CLUSTER/before ahead of every change.",
  arguments: [{ name: "<dir>", about: "where a folder CLUSTER-TIME is made" }],
  options: [fileOption, jsonOption],
  examples: ["talos backup files /mnt/backups"],
  doing: (input) => `copy the files of ${fileOf(input)}`,
  run: (cli, input) =>
    explaining(cli, async () => {
      const place = await openFolder(cli, input);
      const [{ copyFiles, ownFiles, stamp }, { secretsPath }] = await Promise.all([
        import("@gpve/talos/folder/own-files.ts"),
        import("@gpve/talos/folder/secrets-store.ts"),
      ]);
      const name = `${place.cluster.metadata.name}-${stamp(cli.io.clock.now())}`;
      const copy = resolve(cli.io.cwd, input.arg("dir"), name);
      const files = copyFiles(place.folder, ownFiles(place, secretsPath(place)), copy);
      if (cli.out.forPeople) cli.out.done(`Copied ${files.length} files to ${copy}.`);
      else cli.out.data({ copy, files });
    }),
};

export const talosBackupUnpack: CommandSpec = {
  name: "talos backup unpack",
  summary: "put a copy of a cluster's files back",
  details:
    "The copy is checked before anything is written, and what is there is kept in .deployer/CLUSTER/before. Machines are not touched: look at what differs with `talos plan`.",
  arguments: [
    { name: "<copy>", about: "a folder that `talos backup files` made, or one of .deployer/CLUSTER/before" },
  ],
  options: [{ flags: "--into <dir>", about: "the folder to put them into (this one)" }, jsonOption],
  examples: ["talos backup unpack /mnt/backups/prod-20260102T030405.000Z"],
  doing: (input) => `put ${input.arg("copy")} back`,
  run: (cli, input) =>
    explaining(cli, async () => {
      const [{ clusterOfCopy, putBack, readCopy }, { takeLease }] = await Promise.all([
        import("@gpve/talos/folder/own-files.ts"),
        import("@gpve/talos/folder/lease.ts"),
      ]);
      const copy = resolve(cli.io.cwd, input.arg("copy"));
      const into = resolve(cli.io.cwd, input.text("into") ?? ".");
      if (copy === into) throw new AppError("request.invalid", "a copy is not put into itself");
      const cluster = clusterOfCopy(readCopy(copy));
      const lease = cluster === undefined ? undefined : takeLease(into, cluster);
      try {
        const kept = putBack(copy, into, cli.io.clock.now());
        if (!cli.out.forPeople) return cli.out.data({ into, kept: kept ?? null });
        cli.out.done(`Put back into ${into}${kept === undefined ? "" : `; what was there is in ${kept}`}.`);
      } finally {
        lease?.release();
      }
    }),
};
