// A unix socket that a guest may connect to, once: what it sends there goes to the other end of a move as the guest has
// encrypted it, without passing through this process.
import { existsSync } from "node:fs";
import { mkdir, rm } from "node:fs/promises";
import { join } from "node:path";
import type { GuestProcess } from "@gpve/domain/guest/guest-processes.ts";
import type { ForwardedSocket } from "@gpve/domain/guest/move-channel.ts";
import { ignore } from "@gpve/kit/background.ts";
import type { CarriedLine } from "./carried-line.ts";

/** `folder`: one of ours, near the root. `dial` makes the socket, and has reached the other end. */
export async function forwardCarried(
  folder: string,
  process: GuestProcess,
  dial: (path: string) => Promise<CarriedLine>,
): Promise<ForwardedSocket> {
  const path = join(folder, process.id, "direct");
  await mkdir(join(folder, process.id), { recursive: true, mode: 0o711 });
  // An agent that was killed in the midst of a move has left the socket of that one where this one is to be.
  const isLeft = existsSync(path);
  const line = await dial(path);
  const forbid = async (): Promise<void> => {
    if (process.hasExited) return;
    await process.forbidFile(path).catch((err: unknown) => ignore(err, "mostly there is none"));
  };
  const close = async (): Promise<void> => {
    line.close();
    await forbid();
    await rm(path, { force: true });
  };
  try {
    if (isLeft) await forbid();
    await process.allowFile({ path, access: "rw" });
  } catch (err) {
    await close();
    throw err;
  }
  return {
    path,
    allow: (bytes) => line.allow(bytes),
    hurry: () => line.hurry(),
    get isExceeded() {
      return line.isExceeded;
    },
    close,
  };
}
