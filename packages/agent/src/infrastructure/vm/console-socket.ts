import { join } from "node:path";
import { given } from "@gpve/contracts/given.ts";
import type { ConsoleSocket } from "@gpve/domain/guest/console-socket.ts";
import type { GuestProcess } from "@gpve/domain/guest/guest-processes.ts";
import { connectUnixSocket } from "@gpve/kit/unix-socket.ts";

/** QEMU makes these itself, in the folder it may write to; serial ports it was handed. */
const MADE_BY_QEMU: ReadonlySet<string> = new Set(["vnc", "spice", "ram", "nbd"]);

export async function connectConsole(
  process: GuestProcess,
  name: string,
  signal: AbortSignal,
): Promise<ConsoleSocket> {
  const path = MADE_BY_QEMU.has(name) ? join(process.ioFolder, name) : process.socketPath(name);
  const socket = await connectUnixSocket(path, {
    signal,
    ...given({ ownerUid: process.uid }),
  });
  const { promise: closed, resolve } = Promise.withResolvers<void>();
  socket.on("error", () => socket.destroy());
  socket.on("close", () => resolve());
  return {
    output: untilClosed(socket),
    write: async (chunk) => {
      if (socket.destroyed) throw new Error("the console is closed");
      if (socket.write(chunk)) return;
      const { promise: drained, resolve: go } = Promise.withResolvers<void>();
      socket.once("drain", go);
      await Promise.race([drained, closed]);
      socket.off("drain", go);
    },
    close: () => socket.destroy(),
    closed,
  };
}

/** A socket that is cut off in the middle has simply ended. */
async function* untilClosed(socket: AsyncIterable<Uint8Array> & { destroyed: boolean }) {
  try {
    for await (const chunk of socket) yield chunk;
  } catch (err) {
    if (!socket.destroyed) throw err;
  }
}
