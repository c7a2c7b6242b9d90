// A store behind etcd's API as a process of its own. On standard output: where it listens, and on SIGUSR2 how many
// commits it made.
import { DatabaseSync } from "node:sqlite";
import { listenEtcd } from "../../packages/store/src/etcd-server/listen.ts";
import { openSqliteStore } from "../../packages/store/src/sqlite/sqlite-store.ts";

let commits = 0;
// oxlint-disable-next-line typescript/unbound-method -- called with its own database below
const run = DatabaseSync.prototype.exec;
DatabaseSync.prototype.exec = function exec(this: DatabaseSync, sql: string): void {
  if (sql === "COMMIT") commits++;
  run.call(this, sql);
};

const [path = ":memory:"] = process.argv.slice(2);
const store = openSqliteStore({ path });
const listener = await listenEtcd({ store, name: "bench", listen: { host: "127.0.0.1", port: 0 } });
// Before anybody knows that it is there: an early signal would end it.
process.on("SIGUSR2", () => console.log(`commits ${commits}`));
console.log(listener.url);
