// Bodies of uploads, on their way into a storage.
import { randomBytes } from "node:crypto";
import { open, readdir, rm, statfs } from "node:fs/promises";
import { dirname, join } from "node:path";
import { AppError } from "@gpve/contracts/errors.ts";

export interface UploadSpoolOptions {
  readonly directory: string;
  readonly node: string;
  /** An operation will still read this one. */
  readonly isWanted: (path: string) => boolean;
  /** Bytes that stay free whatever is uploaded. */
  readonly reserveBytes?: number;
}

const DEFAULT_RESERVE = 256 * 1024 * 1024;

export class UploadSpool {
  readonly #options: UploadSpoolOptions;

  constructor(options: UploadSpoolOptions) {
    this.#options = options;
  }

  /** Throws when the node has no room for so many bytes. */
  async place(length: number): Promise<string> {
    const { directory, node, reserveBytes = DEFAULT_RESERVE } = this.#options;
    const facts = await statfs(directory);
    const free = facts.bavail * facts.bsize - reserveBytes;
    if (length > free) {
      throw new AppError(
        "capacity.exceeded",
        `not enough space for an upload of ${length} bytes: ${Math.max(0, free)} are free on node '${node}'`,
        { pveStatus: 500 },
      );
    }
    return join(directory, `upload-${randomBytes(16).toString("hex")}`);
  }

  /** Writes what comes until its end; what breaks off before leaves nothing. Returns the number of bytes. */
  async store(path: string, input: AsyncIterable<Uint8Array>, signal: AbortSignal): Promise<number> {
    const file = await open(path, "wx", 0o600);
    let bytes = 0;
    try {
      for await (const chunk of input) {
        signal.throwIfAborted();
        await file.writeFile(chunk);
        bytes += chunk.length;
      }
      signal.throwIfAborted();
      await file.sync();
    } catch (err) {
      await file.close();
      await rm(path, { force: true });
      throw err;
    }
    await file.close();
    return bytes;
  }

  /** Before the first upload: what is here was cut off by a crash, unless an operation goes on with it. */
  async sweep(): Promise<void> {
    const { directory } = this.#options;
    for (const name of await readdir(directory)) await this.discard(join(directory, name));
  }

  async discard(path: string): Promise<void> {
    const { directory, isWanted } = this.#options;
    if (dirname(path) !== directory || isWanted(path)) return;
    await rm(path, { force: true });
  }
}
