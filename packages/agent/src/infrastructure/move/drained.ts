import type { Duplex } from "node:stream";

/** Resolves when more may be written to it, or nobody takes it any more. */
export function drained(socket: Duplex): Promise<void> {
  return new Promise((resolve) => {
    const done = (): void => {
      socket.removeListener("drain", done);
      socket.removeListener("close", done);
      resolve();
    };
    socket.on("drain", done);
    socket.on("close", done);
  });
}
