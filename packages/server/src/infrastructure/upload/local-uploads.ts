// Bodies of uploads for the agent of this very process: handed over by path.
import { randomBytes } from "node:crypto";
import { open, rm, statfs } from "node:fs/promises";
import { join } from "node:path";
import { AppError } from "@gpve/contracts/errors.ts";

export interface LocalUploadsOptions {
  /** undefined: there is no agent in this process. */
  readonly directory: string | undefined;
  readonly localNode: string;
  /** Bytes that stay free whatever is uploaded. */
  readonly reserveBytes?: number;
}

const DEFAULT_RESERVE = 256 * 1024 * 1024;

export class LocalUploads {
  readonly #options: LocalUploadsOptions;

  constructor(options: LocalUploadsOptions) {
    this.#options = options;
  }

  async open(
    node: string,
    length: number,
  ): Promise<{
    readonly path: string;
    write(bytes: Buffer): Promise<void>;
    finish(): Promise<void>;
    discard(): Promise<void>;
  }> {
    const { directory, localNode, reserveBytes = DEFAULT_RESERVE } = this.#options;
    if (directory === undefined || (node !== localNode && node !== "localhost")) {
      throw new AppError(
        "feature.unsupported",
        `this server cannot pass uploads on to node '${node}' yet: upload at a server that runs on that node, or use download-url`,
      );
    }
    const facts = await statfs(directory);
    const free = facts.bavail * facts.bsize - reserveBytes;
    if (length > free) {
      throw new AppError(
        "capacity.exceeded",
        `not enough space for an upload of ${length} bytes: ${Math.max(0, free)} are free on node '${node}'`,
        { pveStatus: 500 },
      );
    }
    const path = join(directory, `upload-${randomBytes(16).toString("hex")}`);
    const handle = await open(path, "wx", 0o600);
    let isOpen = true;
    const close = async (): Promise<void> => {
      if (!isOpen) return;
      isOpen = false;
      await handle.close();
    };
    return {
      path,
      async write(bytes) {
        let at = 0;
        while (at < bytes.length) at += (await handle.write(bytes, at)).bytesWritten;
      },
      async finish() {
        await handle.sync();
        await close();
      },
      async discard() {
        await close();
        await rm(path, { force: true });
      },
    };
  }
}
