// qemu-nbd for one image of a stopped VM: the format is QEMU's business, not ours.
import { existsSync, rmSync } from "node:fs";
import { AppError } from "@gpve/contracts/errors.ts";
import type { Clock } from "@gpve/kit/clock.ts";
import type { WantedImage } from "@gpve/domain/backup/backup-ports.ts";
import { imageFiles, imageName } from "../../image-tools/image-node.ts";
import type { ImageTools } from "../../image-tools/image-tools.ts";
import { NbdClient } from "./nbd-client.ts";

export interface ServedImage extends WantedImage {
  /** Read as it was in this internal snapshot. */
  readonly snapshot?: string;
  /** A dirty bitmap in the image, to be read with `changes`. */
  readonly bitmap?: string;
  /** Where the socket goes; short, and ours alone. */
  readonly socket: string;
}

const START_TIMEOUT_MS = 30_000;
const EXPORT = "disk";

/** Serves an image while `use` runs. The server ends with its only client. */
export async function withImage<T>(
  deps: { readonly tools: ImageTools; readonly clock: Clock },
  image: ServedImage,
  use: (disk: NbdClient) => Promise<T>,
): Promise<T> {
  rmSync(image.socket, { force: true });
  const stop = new AbortController();
  const access = image.access === "ro" ? ["--read-only"] : ["--discard=unmap", "--detect-zeroes=unmap"];
  const snapshot = image.snapshot === undefined ? [] : [`--load-snapshot=${image.snapshot}`];
  const args = [
    "--export-name",
    EXPORT,
    "--cache=writeback",
    ...access,
    ...snapshot,
    ...(image.bitmap === undefined ? [] : [`--bitmap=${image.bitmap}`]),
    "--",
    imageName(image),
  ];
  // A server that nobody came to would wait for ever, and hold its image.
  const server = deps.tools("qemu-nbd", args, imageFiles(image, image.access), {
    socket: image.socket,
    ionice: image.ionice,
    signal: stop.signal,
    timeoutMs: 24 * 3600_000,
    diesWithUs: true,
  });
  const failed = server.then(
    () => undefined,
    (err: unknown) => err,
  );
  try {
    const disk = await connect(deps.clock, image, failed);
    try {
      return await use(disk);
    } finally {
      disk.close();
    }
  } finally {
    await Promise.race([failed, deps.clock.sleep(5_000)]);
    stop.abort();
    rmSync(image.socket, { force: true });
  }
}

async function connect(
  clock: Clock,
  { socket, bitmap }: ServedImage,
  failed: Promise<unknown>,
): Promise<NbdClient> {
  let ended: Error | undefined;
  void failed.then((err) => {
    ended =
      err instanceof Error
        ? err
        : new AppError("internal.error", "qemu-nbd ended before it was asked anything");
  });
  const end = clock.monotonic() + START_TIMEOUT_MS;
  for (;;) {
    if (ended !== undefined) throw ended;
    if (existsSync(socket)) {
      try {
        return await NbdClient.open(socket, EXPORT, bitmap);
      } catch (err) {
        // The socket is there a moment before somebody listens.
        if (clock.monotonic() > end) throw err;
      }
    }
    if (clock.monotonic() > end) throw new AppError("request.timeout", "qemu-nbd did not start");
    await clock.sleep(20);
  }
}
