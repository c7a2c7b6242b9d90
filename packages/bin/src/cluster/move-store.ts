// Moves the records of a single node from SQLite to an etcd that gpve runs, and back. Nothing of the old place is taken
// away; what was broken off begins anew: until the note is there, SQLite is the store.
import { existsSync, renameSync, rmSync } from "node:fs";
import { AppError } from "@gpve/contracts/errors.ts";
import { systemClock } from "@gpve/kit/clock.ts";
import type { DataDir } from "@gpve/kit/data-dir.ts";
import { createLogger } from "@gpve/kit/logger.ts";
import { migrateStore } from "@gpve/store/backup/backup.ts";
import { openStore } from "@gpve/store/open-store.ts";
import type { Store } from "@gpve/store/port.ts";
import { EmbeddedEtcd } from "../etcd/embedded-etcd.ts";
import { etcdPlaces, type EmbeddedEtcdSettings } from "../etcd/etcd-places.ts";
import { stopEtcd } from "../etcd/etcd-process.ts";

/** A SQLite store is the file and what its write-ahead log still holds. */
const PARTS = ["", "-wal", "-shm"] as const;

export const sqliteFile = (data: DataDir): string => data.file("server", "store.db");

export interface Moved {
  readonly count: number;
  readonly aside: string;
}

/** Returns where the SQLite file went. */
export async function toEtcd(data: DataDir, node: string, settings: EmbeddedEtcdSettings): Promise<Moved> {
  const places = etcdPlaces(data);
  // Of a move that was broken off: etcd has nothing yet that is not in SQLite.
  await stopEtcd(places);
  rmSync(places.folder, { recursive: true, force: true });
  const from = sqliteFile(data);
  const { count } = await withEtcd(data, node, settings, async (etcd) => {
    const store = await openStore({ type: "sqlite", path: from });
    try {
      return await migrateStore(store, etcd);
    } finally {
      await store.close();
    }
  });
  return { count, aside: `${from}.before-cluster` };
}

/** After the note is written: a start that finds both takes etcd. */
export function putSqliteAside(data: DataDir, aside: string): void {
  move(sqliteFile(data), aside);
}

export async function toSqlite(data: DataDir, node: string, settings: EmbeddedEtcdSettings): Promise<Moved> {
  const stamp = new Date().toISOString().slice(0, 19).replaceAll(/[-:]/g, "");
  const partial = `${sqliteFile(data)}.partial`;
  for (const part of PARTS) rmSync(partial + part, { force: true });
  const { count } = await withEtcd(data, node, settings, async (etcd, embedded) => {
    const others = embedded.current().length - 1;
    if (others > 0)
      throw new AppError(
        "object.conflict",
        `this server has ${others} other member${others === 1 ? "" : "s"} of etcd beside it: SQLite serves exactly one server`,
      );
    const store = await openStore({ type: "sqlite", path: partial });
    try {
      return await migrateStore(etcd, store);
    } finally {
      await store.close();
    }
  });
  await stopEtcd(etcdPlaces(data));
  move(partial, sqliteFile(data));
  return { count, aside: `${etcdPlaces(data).folder}.before-${stamp}` };
}

export function putEtcdAside(data: DataDir, aside: string): void {
  const { folder } = etcdPlaces(data);
  if (existsSync(folder)) renameSync(folder, aside);
}

async function withEtcd<T>(
  data: DataDir,
  name: string,
  settings: EmbeddedEtcdSettings,
  work: (store: Store, etcd: EmbeddedEtcd) => Promise<T>,
): Promise<T> {
  const log = createLogger({ component: "cluster", output: data.file("log", "gpve.jsonl") });
  const embedded = await EmbeddedEtcd.open({ data, name, settings, clock: systemClock, log });
  const store = await openStore(embedded.config);
  try {
    return await work(store, embedded);
  } finally {
    await store.close();
    await embedded.close();
    log.close();
  }
}

function move(from: string, to: string): void {
  for (const part of PARTS) if (existsSync(from + part)) renameSync(from + part, to + part);
}
