import { AppError } from "@gpve/contracts/errors.ts";
import type { CommandSpec } from "../../command.ts";
import {
  dataPlace,
  etcdOptions,
  etcdPlace,
  onNewStoreFile,
  progressOf,
  requireStoreFile,
  stampOf,
  withDataDir,
  withStore,
} from "./place.ts";

export const storeMigrate: CommandSpec = {
  name: "store migrate",
  summary: "copy a data directory's store to etcd, or back",
  details: [
    "The servers must be stopped; guests run on untouched and are adopted at the next start. The source is kept",
    "as it is. Afterwards point the servers' configuration (store) at the new one.",
  ].join(" "),
  arguments: [{ name: "<direction>", about: "where to", choices: ["to-etcd", "to-sqlite"] }],
  options: [
    ...etcdOptions,
    { flags: "--replace", about: "to-sqlite: put the data directory's present store aside first" },
  ],
  examples: [
    "store migrate to-etcd --data /var/lib/gpve --etcd https://10.0.0.1:2379 --etcd-ca ca.pem",
    "store migrate to-sqlite --data /var/lib/gpve --etcd http://127.0.0.1:2379 --replace",
  ],
  doing: (input) => `migrate the store ${input.arg("direction")}`,
  run: async (cli, input) => {
    const { migrateStore } = await import("@gpve/store/backup/backup.ts");
    const etcd = etcdPlace(cli, input);
    if (etcd === undefined) throw new AppError("request.invalid", "no etcd is named; give --etcd URLS");
    const place = dataPlace(cli);
    const options = { signal: cli.signal, clock: cli.io.clock, onProgress: progressOf(cli, "Copied") };
    const toEtcd = input.arg("direction") === "to-etcd";
    const copied = await withDataDir(place, () =>
      withStore(etcd, async (remote) => {
        if (toEtcd)
          return withStore(requireStoreFile(place), (local) => migrateStore(local, remote, options));
        const how = { replace: input.flag("replace"), stamp: stampOf(cli) };
        const { result } = await onNewStoreFile(place, how, (local) => migrateStore(remote, local, options));
        return result;
      }),
    );
    if (cli.out.forPeople) {
      const where = toEtcd ? "etcd" : place.storeFile;
      cli.out.done(`Copied ${copied.count} keys to ${where}; contents agree (SHA-256 ${copied.sha256}).`);
    } else cli.out.data(copied);
  },
};
