// Which store an offline command works on: the SQLite file of a data directory, or an etcd cluster.
import { existsSync, renameSync, rmSync } from "node:fs";
import { join, resolve } from "node:path";
import { given } from "@gpve/contracts/given.ts";
import { AppError } from "@gpve/contracts/errors.ts";
import { acquireProcessLock, type ProcessLock } from "@gpve/kit/process-lock.ts";
import type { StoreConfig } from "@gpve/store/open-store.ts";
import type { Store } from "@gpve/store/port.ts";
import type { Cli, OptionSpec } from "../../command.ts";
import type { Input } from "../../input.ts";

export const etcdOptions: readonly OptionSpec[] = [
  { flags: "--etcd <urls>", about: "an etcd cluster: endpoints, separated by commas" },
  { flags: "--etcd-ca <file>", about: "CA of the etcd servers (PEM)" },
  { flags: "--etcd-cert <file>", about: "client certificate for etcd (PEM)" },
  { flags: "--etcd-key <file>", about: "key of the client certificate (PEM)" },
];

export interface DataPlace {
  readonly dir: string;
  readonly storeFile: string;
}

export function dataPlace(cli: Cli): DataPlace {
  const chosen = cli.global.data ?? cli.io.localDataDir;
  if (chosen === undefined)
    throw new AppError("request.invalid", "no data directory is named; give --data DIR");
  const dir = resolve(cli.io.cwd, chosen);
  return { dir, storeFile: join(dir, "server", "store.db") };
}

/** undefined when no etcd is named. */
export function etcdPlace(cli: Cli, input: Input): StoreConfig | undefined {
  const endpoints = input.text("etcd");
  if (endpoints === undefined) return undefined;
  const file = (option: string): string | undefined => {
    const path = input.text(option);
    return path === undefined ? undefined : resolve(cli.io.cwd, path);
  };
  return {
    type: "etcd",
    endpoints: endpoints.split(",").map((endpoint) => endpoint.trim()),
    ...given({ caFile: file("etcdCa"), certFile: file("etcdCert"), keyFile: file("etcdKey") }),
  };
}

/** Opens a store for one piece of work and closes it whatever happens. */
export async function withStore<T>(config: StoreConfig, work: (store: Store) => Promise<T>): Promise<T> {
  // Loaded here: other commands must not pay for the engines.
  const { openStore } = await import("@gpve/store/open-store.ts");
  const store = await openStore(config);
  try {
    return await work(store);
  } finally {
    await store.close();
  }
}

/** Keeps a gpve from starting on the directory meanwhile; refuses while one runs there. */
export async function withDataDir<T>(place: DataPlace, work: () => Promise<T>): Promise<T> {
  let lock: ProcessLock;
  try {
    lock = acquireProcessLock(join(place.dir, "run", "lock"));
  } catch (err) {
    if (!(err instanceof AppError)) {
      throw new AppError("object.not_found", `${place.dir} is not a data directory of gpve`, {
        cause: err,
        data: { next: "Name it with --data DIR." },
      });
    }
    throw new AppError("resource.busy", `a gpve is running on ${place.dir}`, {
      cause: err,
      data: { next: `Stop it first (guests run on): ./gpve down --data ${place.dir}.` },
    });
  }
  try {
    return await work();
  } finally {
    lock.release();
  }
}

/** The named etcd, or the data directory's file while no gpve runs there. */
export async function onStore<T>(cli: Cli, input: Input, work: (store: Store) => Promise<T>): Promise<T> {
  const etcd = etcdPlace(cli, input);
  if (etcd !== undefined) return withStore(etcd, work);
  const place = dataPlace(cli);
  return withDataDir(place, () => withStore(requireStoreFile(place), work));
}

/**
 * A new, empty store file for `work` to fill. An old one is refused, or with `replace` put aside; it comes back
 * when the work fails.
 */
export async function onNewStoreFile<T>(
  place: DataPlace,
  options: { replace: boolean; stamp: string },
  work: (store: Store) => Promise<T>,
): Promise<{ result: T; aside: string | undefined }> {
  const { storeFile } = place;
  if (existsSync(storeFile) && !options.replace) {
    throw new AppError("object.exists", `${place.dir} has a store already; nothing was changed`, {
      data: { next: "With --replace the old one is put aside." },
    });
  }
  const aside = existsSync(storeFile) ? `${storeFile}.before-${options.stamp}` : undefined;
  if (aside !== undefined) moveStore(storeFile, aside);
  try {
    return { result: await withStore({ type: "sqlite", path: storeFile }, work), aside };
  } catch (err) {
    removeStore(storeFile);
    if (aside !== undefined) moveStore(aside, storeFile);
    throw err;
  }
}

// A SQLite store is the file and what its write-ahead log still holds.
const PARTS = ["", "-wal", "-shm"] as const;

function moveStore(from: string, to: string): void {
  for (const part of PARTS) if (existsSync(from + part)) renameSync(from + part, to + part);
}

function removeStore(path: string): void {
  for (const part of PARTS) rmSync(path + part, { force: true });
}

export function requireStoreFile(place: DataPlace): StoreConfig {
  if (existsSync(place.storeFile)) return { type: "sqlite", path: place.storeFile };
  throw new AppError("object.not_found", `${place.dir} has no store (${place.storeFile})`, {
    data: { next: "Name the data directory with --data DIR." },
  });
}

/** Part of a file name: 20260102T030405. */
export function stampOf(cli: Cli): string {
  return new Date(cli.io.clock.now()).toISOString().slice(0, 19).replaceAll(/[-:]/g, "");
}

/** Progress on standard error, at most every thousand keys. */
export function progressOf(cli: Cli, what: string): (keys: number) => void {
  return (keys) => {
    if (keys > 0 && keys % 1000 === 0) cli.out.note(`${what}: ${keys} keys …`);
  };
}
