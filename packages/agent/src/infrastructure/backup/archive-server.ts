// The disks of an archive, readable before the archive has been read: it is unpacked from its beginning to its end into
// one file per disk, and who asks for a part that has not come yet waits for it.
import { open, type FileHandle } from "node:fs/promises";
import { AppError, messageOf } from "@gpve/contracts/errors.ts";
import {
  CLUSTER_BYTES,
  type ArchiveReader,
  type ArchiveServer,
  type ServeArchiveRequest,
} from "@gpve/domain/backup/backup-ports.ts";
import { ignore } from "@gpve/kit/background.ts";
import { NbdServer } from "./nbd/nbd-server.ts";

class SpooledDisk {
  readonly size: number;
  readonly #file: FileHandle;
  readonly #seen: Uint8Array;
  #left: number;
  #waiting: { first: number; last: number; resolve: () => void; reject: (err: unknown) => void }[] = [];
  #failure: unknown;

  constructor(size: number, file: FileHandle) {
    this.size = size;
    this.#file = file;
    this.#seen = new Uint8Array(Math.ceil(size / CLUSTER_BYTES));
    this.#left = this.#seen.length;
  }

  async write(offset: number, data: Uint8Array): Promise<void> {
    await this.#file.write(data, 0, data.length, offset);
  }

  async zero(offset: number, length: number): Promise<void> {
    await this.#file.write(Buffer.alloc(length), 0, length, offset);
  }

  /** Of these bytes no others will come. */
  settle(offset: number, length: number): void {
    const last = Math.ceil((offset + length) / CLUSTER_BYTES);
    for (let at = Math.floor(offset / CLUSTER_BYTES); at < last; at++) {
      if (this.#seen[at] === 0) this.#left--;
      this.#seen[at] = 1;
    }
    this.#wake();
  }

  settleAll(): void {
    this.#seen.fill(1);
    this.#left = 0;
    this.#wake();
  }

  fail(cause: unknown): void {
    this.#failure = cause;
    for (const { reject } of this.#waiting.splice(0)) reject(cause);
  }

  async read(offset: number, length: number): Promise<Uint8Array> {
    await this.until(offset, length);
    const data = Buffer.alloc(length);
    await this.#file.read(data, 0, length, offset);
    return data;
  }

  until(offset: number, length: number): Promise<void> {
    const first = Math.floor(offset / CLUSTER_BYTES);
    const last = Math.ceil((offset + length) / CLUSTER_BYTES);
    if (this.#isSeen(first, last)) return Promise.resolve();
    if (this.#failure !== undefined) return Promise.reject(asError(this.#failure));
    return new Promise((resolve, reject) => this.#waiting.push({ first, last, resolve, reject }));
  }

  close(): Promise<void> {
    this.fail(new AppError("operation.cancelled", "the archive is no longer served"));
    return this.#file.close();
  }

  #isSeen(first: number, last: number): boolean {
    return this.#left === 0 || !this.#seen.subarray(first, last).includes(0);
  }

  #wake(): void {
    this.#waiting = this.#waiting.filter(({ first, last, resolve }) => {
      if (!this.#isSeen(first, last)) return true;
      resolve();
      return false;
    });
  }
}

export async function serveArchive(request: ServeArchiveRequest): Promise<ArchiveServer> {
  const { reader, spool } = request;
  const disks = new Map<string, SpooledDisk>();
  const stop = new AbortController();
  let server: NbdServer | undefined;
  const close = async (): Promise<void> => {
    stop.abort(new AppError("operation.cancelled", "the archive is no longer served"));
    await server?.close();
    for (const disk of disks.values()) await disk.close();
    disks.clear();
  };
  try {
    for (const { name, size } of reader.header.devices) {
      const path = spool.get(name);
      if (path !== undefined) disks.set(name, new SpooledDisk(size, await open(path, "r+")));
    }
    server = await NbdServer.listen(request.socket, disks);
  } catch (err) {
    await close();
    throw err;
  }
  const whole = unpack(reader, disks, request, stop.signal).catch((err: unknown) => {
    for (const disk of disks.values()) disk.fail(err);
    throw err;
  });
  // Whoever waits for it hears of it; nobody has to.
  whole.catch((err: unknown) => ignore(err, "told to all who wait"));
  const diskOf = (device: string): SpooledDisk => {
    const disk = disks.get(device);
    if (disk === undefined) throw new RangeError(`the archive has no device '${device}'`);
    return disk;
  };
  return {
    whole,
    close,
    read: (device, offset, length) => diskOf(device).read(offset, length),
  };
}

async function unpack(
  reader: ArchiveReader,
  disks: ReadonlyMap<string, SpooledDisk>,
  { isFinal, pace }: ServeArchiveRequest,
  signal: AbortSignal,
): Promise<void> {
  for await (const { device, offset, data, isZero, overwrites } of reader.clusters()) {
    signal.throwIfAborted();
    const disk = disks.get(device.name);
    if (!isZero) await disk?.write(offset, data);
    else if (overwrites === true) await disk?.zero(offset, data.length);
    if (isFinal) disk?.settle(offset, data.length);
    if (!isZero) await pace(data.length);
  }
  for (const disk of disks.values()) disk.settleAll();
}

function asError(cause: unknown): Error {
  return cause instanceof Error ? cause : new AppError("internal.error", messageOf(cause));
}
