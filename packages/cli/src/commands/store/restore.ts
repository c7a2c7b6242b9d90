import { resolve } from "node:path";
import type { CommandSpec } from "../../command.ts";
import {
  dataPlace,
  etcdOptions,
  etcdPlace,
  onNewStoreFile,
  progressOf,
  stampOf,
  withDataDir,
  withStore,
} from "./place.ts";

export const storeRestore: CommandSpec = {
  name: "store restore",
  summary: "make a store from a backup file",
  details: [
    "The file is checked to its end before anything is written. The target must be empty: a data directory",
    "without a store, or an etcd without keys. Guests that run are left alone; the next start adopts them.",
  ].join(" "),
  arguments: [{ name: "<file>", about: "the backup file" }],
  options: [
    ...etcdOptions,
    { flags: "--replace", about: "put the data directory's present store aside first" },
  ],
  examples: ["store restore gpve.backup --data /var/lib/gpve --replace"],
  doing: (input) => `restore the store from ${input.arg("file")}`,
  run: async (cli, input) => {
    const { restoreBackup } = await import("@gpve/store/backup/backup.ts");
    const file = resolve(cli.io.cwd, input.arg("file"));
    const options = { signal: cli.signal, clock: cli.io.clock, onProgress: progressOf(cli, "Restored") };
    const etcd = etcdPlace(cli, input);
    if (etcd !== undefined) {
      const info = await withStore(etcd, (store) => restoreBackup(file, store, options));
      cli.out.done(`Restored ${info.count} keys of ${info.createdAt} into etcd.`);
      return;
    }
    const place = dataPlace(cli);
    const { result, aside } = await withDataDir(place, () =>
      onNewStoreFile(place, { replace: input.flag("replace"), stamp: stampOf(cli) }, (store) =>
        restoreBackup(file, store, options),
      ),
    );
    cli.out.done(`Restored ${result.count} keys of ${result.createdAt} into ${place.dir}.`);
    if (aside !== undefined) cli.out.note(`The store before is ${aside}.`);
  },
};
