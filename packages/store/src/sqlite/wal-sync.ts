// Makes what SQLite has committed durable, without holding up the thread. SQLite would call fsync inside COMMIT, on the
// thread that everything else runs on; here COMMIT only hands the pages to the kernel (synchronous = NORMAL), and the
// write-ahead log is synced in the thread pool. Whatever is committed meanwhile shares the next sync.
// The log is opened a second time for that: SQLite keeps its locks on the database and not on the log, so that closing
// this descriptor loses none (sqlite.org/howtocorrupt.html, 2.2), and the log keeps its file for as long as it is open.
import { close, fdatasync, openSync } from "node:fs";

export interface Sync {
  /** Calls back once everything that was committed before the call would survive a loss of power. */
  (done: (err: Error | null) => void): void;
}

export interface WalSync {
  readonly sync: Sync;
  close(): void;
}

export function openWalSync(database: string): WalSync {
  if (database === ":memory:") return { sync: (done) => done(null), close: () => undefined };
  let descriptor: number | undefined;
  return {
    sync(done) {
      try {
        // Not earlier: SQLite makes the file with the first change.
        descriptor ??= openSync(`${database}-wal`, "r");
      } catch (err) {
        done(err as Error);
        return;
      }
      fdatasync(descriptor, done);
    },
    close() {
      if (descriptor !== undefined) close(descriptor, () => undefined);
      descriptor = undefined;
    },
  };
}
