import { existsSync } from "node:fs";
import { resolve } from "node:path";
import { AppError } from "@gpve/contracts/errors.ts";
import type { CommandSpec } from "../../command.ts";
import { etcdOptions, onStore, progressOf } from "./place.ts";

export const storeBackup: CommandSpec = {
  name: "store backup",
  summary: "write all configuration into one file",
  details: [
    "The store of a data directory is backed up while its gpve is stopped (guests run on); an etcd cluster at",
    "any time. The file is private to its owner. Keys and certificates (DIR/secrets, DIR/pki) are not in it:",
    "keep a copy of them too.",
  ].join(" "),
  arguments: [{ name: "<file>", about: "the new backup file" }],
  options: etcdOptions,
  examples: [
    "store backup gpve.backup --data /var/lib/gpve",
    "store backup gpve.backup --etcd https://10.0.0.1:2379,https://10.0.0.2:2379 --etcd-ca ca.pem",
  ],
  doing: (input) => `back up the store to ${input.arg("file")}`,
  run: async (cli, input) => {
    const { backupStore } = await import("@gpve/store/backup/backup.ts");
    const target = resolve(cli.io.cwd, input.arg("file"));
    if (existsSync(target)) throw new AppError("object.exists", `${target} is there already`);
    const options = { signal: cli.signal, clock: cli.io.clock, onProgress: progressOf(cli, "Backed up") };
    const info = await onStore(cli, input, (store) => backupStore(store, target, options));
    if (cli.out.forPeople) cli.out.done(`Backed up ${info.count} keys to ${target}.`);
    else cli.out.data({ file: target, ...info });
  },
};
