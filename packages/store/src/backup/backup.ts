// Backup, verification, restore and migration of a whole store. Keys tied to leases are left out: they say who is
// alive now, which a copy cannot know.
import { type FileHandle, open, rename, rm } from "node:fs/promises";
import { once } from "node:events";
import type { Writable } from "node:stream";
import { dirname } from "node:path";
import { AppError, messageOf } from "@gpve/contracts/errors.ts";
import { ignore } from "@gpve/kit/background.ts";
import { type Clock, systemClock } from "@gpve/kit/clock.ts";
import type { Store } from "../port.ts";
import { readAll } from "../read-all.ts";
import { type BackupInfo, BackupWriter, readBackup } from "./backup-file.ts";
import { ContentDigest, type Contents, EVERYTHING, contentsOf } from "./digest.ts";
import { fillStore } from "./fill-store.ts";

export type { BackupInfo } from "./backup-file.ts";

export interface CopyOptions {
  readonly signal?: AbortSignal;
  readonly clock?: Clock;
  /** Told now and then how many keys are done. */
  readonly onProgress?: (keys: number) => void;
}

/**
 * Writes all of a store as of one revision; others may go on writing meanwhile. To a path: whole or not at all,
 * readable by the owner only. To a stream: the caller ends it.
 */
export async function backupStore(
  store: Store,
  target: string | Writable,
  options: CopyOptions = {},
): Promise<BackupInfo> {
  if (typeof target !== "string") {
    return writeBackup(store, options, async (text) => {
      if (!target.write(text)) await once(target, "drain");
    });
  }
  const partial = `${target}.partial`;
  let file: FileHandle | undefined;
  try {
    file = await open(partial, "w", 0o600);
    const out = file;
    const info = await writeBackup(store, options, async (text) => void (await out.write(text)));
    await file.sync();
    await file.close();
    file = undefined;
    await rename(partial, target);
    await syncDirectory(dirname(target));
    return info;
  } catch (err) {
    await file?.close();
    await rm(partial, { force: true });
    if (err instanceof AppError) throw err;
    throw new AppError("operation.failed", `cannot write the backup ${target}: ${messageOf(err)}`, {
      cause: err,
    });
  }
}

/** Reads the whole file; rejects with what is wrong with it. */
export async function verifyBackup(path: string): Promise<BackupInfo> {
  return readBackup(path, () => undefined);
}

/** Into a store without keys. The file is checked to its end before the first key is written. */
export async function restoreBackup(
  path: string,
  into: Store,
  options: CopyOptions = {},
): Promise<BackupInfo> {
  const info = await verifyBackup(path);
  const progress = counter(options);
  await fillStore(into, async (put) =>
    readBackup(path, async (key, value) => {
      options.signal?.throwIfAborted();
      await put(key, value);
      progress();
    }),
  );
  return info;
}

/**
 * Copies all keys and values from one store to an empty one, whatever their kinds. The source must be at rest: a
 * change during the copy makes it fail, and the target is emptied again.
 */
export async function migrateStore(from: Store, to: Store, options: CopyOptions = {}): Promise<Contents> {
  const { signal } = options;
  const progress = counter(options);
  return fillStore(to, async (put) => {
    const digest = new ContentDigest();
    await readAll(from, EVERYTHING, signal, async (kvs) => {
      for (const kv of kvs) {
        if (kv.lease !== 0n) continue;
        digest.add(kv.key, kv.value);
        await put(kv.key, kv.value);
        progress();
      }
    });
    const copied = digest.result();
    const now = await contentsOf(from, signal);
    if (now.sha256 !== copied.sha256) {
      throw new AppError(
        "object.conflict",
        "the source was changed while it was copied; stop what uses it, then try again",
      );
    }
    return copied;
  });
}

async function writeBackup(
  store: Store,
  options: CopyOptions,
  write: (text: string) => Promise<void>,
): Promise<BackupInfo> {
  const writer = new BackupWriter();
  const progress = counter(options);
  const createdAt = new Date((options.clock ?? systemClock).now()).toISOString();
  const revision = await store.revision();
  await write(writer.header(revision, createdAt));
  await readAll(
    store,
    EVERYTHING,
    options.signal,
    async (kvs) => {
      for (const kv of kvs) {
        if (kv.lease !== 0n) continue;
        await write(writer.record(kv.key, kv.value));
        progress();
      }
    },
    revision,
  );
  await write(writer.end());
  return { createdAt, revision, ...writer.contents() };
}

function counter({ onProgress }: CopyOptions): () => void {
  let done = 0;
  return () => {
    done += 1;
    if (done % 1_000 === 0) onProgress?.(done);
  };
}

/** Makes the new name itself durable. */
async function syncDirectory(path: string): Promise<void> {
  try {
    const dir = await open(path, "r");
    await dir.sync();
    await dir.close();
  } catch (err) {
    ignore(err, "some file systems cannot sync a directory");
  }
}
