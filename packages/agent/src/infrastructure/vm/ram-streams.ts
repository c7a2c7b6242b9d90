// RAM of a guest on its way to and from a file. To save it the guest connects to a socket of ours, in a folder it
// cannot write to and sees nothing else of; to load it we connect to a socket that the guest serves.
import { constants } from "node:fs";
import { mkdir, open, rm } from "node:fs/promises";
import { createServer } from "node:net";
import { dirname, join } from "node:path";
import { pipeline } from "node:stream/promises";
import { given } from "@gpve/contracts/given.ts";
import { AppError, messageOf } from "@gpve/contracts/errors.ts";
import type { QemuProcess } from "@gpve/domain/vm/qemu-processes.ts";
import type { RamReceiver, RamStreams } from "@gpve/domain/vm/snapshot/ram-streams.ts";
import { ignore } from "@gpve/kit/background.ts";
import { openPlainFile } from "@gpve/kit/held-file.ts";
import { connectUnixSocket } from "@gpve/kit/unix-socket.ts";

const CHUNK_BYTES = 1024 * 1024;

export class UnixRamStreams implements RamStreams {
  readonly #folder: string;

  /** A folder of ours, near the root: a socket's path may have 107 bytes. */
  constructor(folder: string) {
    this.#folder = folder;
  }

  async receive(process: QemuProcess, file: string): Promise<RamReceiver> {
    const socket = join(this.#folder, process.id, "ram");
    await mkdir(dirname(socket), { recursive: true, mode: 0o711 });
    await rm(socket, { force: true });
    const target = await open(file, constants.O_RDWR | constants.O_NOFOLLOW);
    const { promise: written, resolve, reject } = Promise.withResolvers<void>();
    written.catch((err: unknown) => ignore(err, "whoever waits for the end is told; nobody may wait"));
    const server = createServer((connection) => {
      server.close();
      const copy = async (): Promise<void> => {
        for await (const chunk of connection) await writeAll(target, chunk as Buffer);
        await target.sync();
      };
      copy().then(resolve, (err: unknown) => reject(clearer(file, err)));
    });
    await new Promise<void>((listening, failed) => {
      server.once("error", failed);
      server.listen(socket, listening);
    });
    await process.allowFile({ path: socket, access: "rw" });
    return {
      uri: `unix:${socket}`,
      written,
      async close() {
        server.close();
        await target.close();
        if (!process.hasExited)
          await process.forbidFile(socket).catch((err: unknown) => ignore(err, "the guest may be gone"));
        await rm(dirname(socket), { recursive: true, force: true });
      },
    };
  }

  async send(process: QemuProcess, socket: string, file: string, signal: AbortSignal): Promise<void> {
    const connection = await connectUnixSocket(socket, {
      signal,
      ...given({ ownerUid: process.uid }),
    });
    try {
      const state = (await openPlainFile(file)).createReadStream({ highWaterMark: CHUNK_BYTES });
      await pipeline(state, connection, { signal });
    } catch (err) {
      if (signal.aborted) throw err;
      ignore(err, "QEMU closes when it has all it needs; whether that was so, it says itself");
    } finally {
      connection.destroy();
    }
  }
}

/** A full disk is told apart: it is the one failure a person can do something about at once. */
function clearer(file: string, cause: unknown): AppError {
  const full = ["ENOSPC", "EDQUOT"].includes((cause as NodeJS.ErrnoException).code ?? "");
  const why = `writing the VM state to ${file} failed: ${messageOf(cause)}`;
  return full
    ? new AppError("capacity.exceeded", `not enough space on the storage: ${why}`, { cause, pveStatus: 500 })
    : new AppError("internal.error", why, { cause });
}

async function writeAll(
  target: { write(data: Buffer, offset: number): Promise<{ bytesWritten: number }> },
  data: Buffer,
): Promise<void> {
  for (let at = 0; at < data.length;) at += (await target.write(data, at)).bytesWritten;
}
