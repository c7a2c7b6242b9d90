// A listening unix socket in a folder, whatever the length of its path.
import { closeSync, constants, openSync, rmSync } from "node:fs";
import { createServer, type Socket } from "node:net";
import { ignore } from "@gpve/kit/background.ts";
import { withHeldFile } from "@gpve/kit/held-file.ts";

export interface SocketDoor {
  close(): void;
}

/**
 * `mode`: of the socket. Whoever else writes to that folder must not be able to rename what is ours (sticky), or what it puts in
 * the place of the socket would get the mode.
 */
export async function openSocketDoor(
  folder: string,
  { name, mode }: { readonly name: string; readonly mode: number },
  come: (socket: Socket) => void,
): Promise<SocketDoor> {
  // As unix-socket.ts has it: by way of the descriptor a path is as short as it must be.
  const held = openSync(folder, constants.O_RDONLY | constants.O_DIRECTORY | constants.O_NOFOLLOW);
  const path = `/proc/self/fd/${held}/${name}`;
  const open = new Set<Socket>();
  const server = createServer({ allowHalfOpen: true }, (socket) => {
    open.add(socket);
    socket.on("error", (err) => ignore(err, "whoever has connected sees it too"));
    socket.once("close", () => open.delete(socket));
    come(socket);
  });
  try {
    rmSync(path, { force: true });
    await new Promise<void>((listening, failed) => {
      server.once("error", failed);
      server.listen(path, listening);
    });
    server.on("error", (err) => ignore(err, "the next one may be taken"));
    await withHeldFile(path, ({ chmod }) => chmod(mode));
  } catch (err) {
    server.close();
    closeSync(held);
    throw err;
  }
  return {
    close() {
      for (const socket of open) socket.destroy();
      // Said twice it fails, and by then the number is somebody else's file.
      server.close((err) => {
        if (err === undefined) closeSync(held);
      });
    },
  };
}
