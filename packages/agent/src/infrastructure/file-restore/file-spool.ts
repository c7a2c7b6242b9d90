// Disks of archives as sparse files, for as long as somebody looks into them.
import { createHash } from "node:crypto";
import { mkdir, open, rm, statfs, type FileHandle } from "node:fs/promises";
import { join } from "node:path";
import { AppError } from "@gpve/contracts/errors.ts";
import type { DiskSpool, RandomAccess } from "@gpve/domain/backup/file-tree.ts";
import { ignore } from "@gpve/kit/background.ts";
import type { Clock } from "@gpve/kit/clock.ts";

/** As long as PVE lets a client wait before it is told to ask again. */
const PATIENCE_MS = 25_000;
const KEEP_MS = 10 * 60_000;
const CHECK_EVERY_BYTES = 64 * 1024 * 1024;
/** The host's own disk is never filled up for this. */
const SPARE_BYTES = 1024 * 1024 * 1024;

interface Spooled {
  readonly ready: Promise<RandomAccess>;
  isReady: boolean;
  cancelEnd: () => void;
}

export class FileSpool implements DiskSpool {
  readonly #folder: string;
  readonly #clock: Clock;
  readonly #disks = new Map<string, Spooled>();
  readonly #stop = new AbortController();

  constructor(deps: { readonly folder: string; readonly clock: Clock }) {
    this.#folder = deps.folder;
    this.#clock = deps.clock;
  }

  async open(key: string, size: number, fill: Parameters<DiskSpool["open"]>[2]): Promise<RandomAccess> {
    let disk = this.#disks.get(key);
    if (disk === undefined) {
      disk = this.#begin(key, size, fill);
      this.#disks.set(key, disk);
    }
    if (!disk.isReady) {
      const late = this.#clock.sleep(PATIENCE_MS).then(() => {
        throw new AppError("resource.busy", "the backup is still being unpacked: ask again", {
          pveStatus: 503,
        });
      });
      return Promise.race([disk.ready, late]);
    }
    disk.cancelEnd();
    disk.cancelEnd = this.#endLater(key);
    return disk.ready;
  }

  /** Nothing stays on disk. */
  async close(): Promise<void> {
    this.#stop.abort();
    for (const disk of this.#disks.values()) disk.cancelEnd();
    this.#disks.clear();
    await this.clear();
  }

  /** What a process that was killed left behind. */
  async clear(): Promise<void> {
    await rm(this.#folder, { recursive: true, force: true });
  }

  #begin(key: string, size: number, fill: Parameters<DiskSpool["open"]>[2]): Spooled {
    const path = this.#pathOf(key);
    const ready = this.#fill(path, size, fill).then(
      (disk) => {
        const entry = this.#disks.get(key);
        if (entry !== undefined) {
          entry.isReady = true;
          entry.cancelEnd = this.#endLater(key);
        }
        return disk;
      },
      async (err: unknown) => {
        this.#disks.delete(key);
        await rm(path, { force: true });
        throw err;
      },
    );
    ready.catch((err: unknown) => ignore(err, "told to whoever waits for it"));
    return { ready, isReady: false, cancelEnd: () => undefined };
  }

  async #fill(path: string, size: number, fill: Parameters<DiskSpool["open"]>[2]): Promise<RandomAccess> {
    await mkdir(this.#folder, { recursive: true, mode: 0o700 });
    const handle = await open(path, "w+", 0o600);
    try {
      await handle.truncate(size);
      let unchecked = CHECK_EVERY_BYTES;
      await fill(async (offset, data) => {
        unchecked += data.length;
        if (unchecked >= CHECK_EVERY_BYTES) {
          unchecked = 0;
          await this.#requireRoom();
        }
        await handle.write(data, 0, data.length, offset);
      }, this.#stop.signal);
    } finally {
      await handle.close();
    }
    return { size, read: (offset, length) => readAt(path, size, offset, length) };
  }

  async #requireRoom(): Promise<void> {
    const { bavail, bsize } = await statfs(this.#folder);
    if (bavail * bsize > SPARE_BYTES) return;
    throw new AppError("capacity.exceeded", "the node has no room to unpack this disk of the backup", {
      pveStatus: 500,
    });
  }

  #endLater(key: string): () => void {
    return this.#clock.after(KEEP_MS, () => {
      this.#disks.delete(key);
      rm(this.#pathOf(key), { force: true }).catch((err: unknown) =>
        ignore(err, "what is left goes with the next start"),
      );
    });
  }

  #pathOf(key: string): string {
    return join(this.#folder, createHash("sha256").update(key).digest("hex"));
  }
}

async function readAt(path: string, size: number, offset: number, length: number): Promise<Uint8Array> {
  if (!Number.isSafeInteger(offset) || offset < 0 || offset >= size) return Buffer.alloc(0);
  let handle: FileHandle | undefined;
  try {
    handle = await open(path, "r");
    const bytes = Buffer.alloc(Math.min(length, size - offset));
    const { bytesRead } = await handle.read(bytes, 0, bytes.length, offset);
    return bytes.subarray(0, bytesRead);
  } finally {
    await handle?.close();
  }
}
