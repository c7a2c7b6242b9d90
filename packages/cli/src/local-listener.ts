// Programs on this machine that want to reach a guest through us: a TCP port, or a socket in the file system.
import { once } from "node:events";
import { chmod } from "node:fs/promises";
import { createServer, type AddressInfo, type Socket } from "node:net";
import type { Writable } from "node:stream";
import { AppError } from "@gpve/contracts/errors.ts";
import type { LocalAddress, LocalClient, LocalListener } from "./io.ts";

export async function listenLocally(
  where: LocalAddress,
  onClient: (client: LocalClient) => void,
): Promise<LocalListener> {
  const sockets = new Set<Socket>();
  const server = createServer((socket) => {
    sockets.add(socket);
    socket.once("close", () => sockets.delete(socket));
    // A client that goes in the middle has simply gone.
    socket.on("error", () => socket.destroy());
    onClient({
      input: received(socket),
      write: (bytes) => writeTo(socket, bytes),
      close: () => socket.destroySoon(),
    });
  });
  const isSocket = "socket" in where;
  const name = isSocket ? where.socket : `${where.host}:${where.port}`;
  // The socket is made for its owner alone: there is no moment in which others could connect.
  const umask = isSocket ? process.umask(0o177) : undefined;
  try {
    server.listen(isSocket ? { path: where.socket } : where);
    await once(server, "listening");
  } catch (err) {
    const inUse = err instanceof Error && "code" in err && err.code === "EADDRINUSE";
    throw new AppError("config.invalid", `cannot listen on ${name}${inUse ? ": it is in use" : ""}`, {
      cause: err,
    });
  } finally {
    if (umask !== undefined) process.umask(umask);
  }
  if (isSocket) await chmod(where.socket, 0o600);
  return {
    address: isSocket ? name : `${where.host}:${(server.address() as AddressInfo).port}`,
    close: async () => {
      for (const socket of sockets) socket.destroy();
      server.close();
      await once(server, "close");
    },
  };
}

export async function writeTo(stream: Writable, bytes: Uint8Array): Promise<void> {
  if (stream.destroyed || stream.write(bytes)) return;
  await new Promise<void>((resolve) => {
    const go = (): void => {
      stream.off("drain", go).off("close", go);
      resolve();
    };
    stream.on("drain", go).on("close", go);
  });
}

async function* received(socket: Socket): AsyncGenerator<Uint8Array> {
  try {
    yield* socket as AsyncIterable<Uint8Array>;
  } catch {
    // Cut off: the same as its end.
  }
}
