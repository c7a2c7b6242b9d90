import { access, constants, readdir, realpath, rm, stat } from "node:fs/promises";
import { randomBytes } from "node:crypto";
import type { Socket } from "node:net";
import { createPlainFile } from "@gpve/kit/held-file.ts";
import type { Clock } from "@gpve/kit/clock.ts";
import { MINIMAL_ENV, type Exec } from "@gpve/kit/exec.ts";
import { BITMAP_GRANULARITY } from "@gpve/domain/backup/backup-chain.ts";
import type { BackupTools } from "@gpve/domain/backup/backup-ports.ts";
import { createArchive, createIncremental, openArchive, openIncremental } from "./archive-file.ts";
import { addImageBitmap, imageBitmaps, removeImageBitmap } from "./image-bitmaps.ts";
import type { ImageTools } from "../image-tools/image-tools.ts";
import { serveArchive } from "./archive-server.ts";
import { withImage } from "./nbd/image-server.ts";
import { NbdClient } from "./nbd/nbd-client.ts";

const HOOK_TIMEOUT_MS = 24 * 3600_000;

export function hostBackupTools(deps: {
  readonly exec: Exec;
  /** What works on images. */
  readonly tools: ImageTools;
  readonly clock: Clock;
  readonly socketFolder: string;
  /** Keeps a connection to a guest's QEMU open should we die. */
  readonly hold?: (connection: Socket) => void;
}): BackupTools {
  const { exec, socketFolder, tools } = deps;
  const serving = { tools, clock: deps.clock };
  const newSocket = (): string => `${socketFolder}/nbd-${randomBytes(4).toString("hex")}`;
  return {
    withImage: (image, use) => withImage(serving, { ...image, socket: newSocket() }, use),
    serveArchive: async (request) => {
      await rm(request.socket, { force: true });
      return serveArchive(request);
    },
    socketPath: (name) => `${socketFolder}/${name}`,
    openExport: (at, name) => NbdClient.open(at.socket, name, undefined, deps.hold, at.ownerUid),
    withTrackedImage: (image, use) => withImage(serving, { ...image, socket: newSocket() }, use),
    openTrackedExport: (at, name, bitmap) => NbdClient.open(at.socket, name, bitmap, deps.hold, at.ownerUid),
    createArchive: (path, compression, header) => createArchive(tools, path, compression, header),
    openArchive: (path) => openArchive(tools, path),
    createIncremental: (path, header) => createIncremental(tools, path, header),
    openIncremental: (path) => openIncremental(tools, path),
    imageBitmaps: (path) => imageBitmaps(tools, path),
    addImageBitmap: (path, name) => addImageBitmap(tools, path, name, BITMAP_GRANULARITY),
    removeImageBitmap: (path, name) => removeImageBitmap(tools, path, name),
    realFile: (path) => realpath(path),
    writeSideFile,
    createScratch: async (path, size) => {
      // A volume is there already, a file beside the backup is not.
      await createPlainFile(path, 0o600).then(
        (file) => file.close(),
        (err: unknown) => requireThere(err),
      );
      const argv = ["create", "-q", "-f", "qcow2", path, String(size)];
      await tools("qemu-img", argv, [{ path, access: "rw" }]);
    },
    removeFile: (path) => rm(path, { force: true }),
    fileSize: async (path) => (await stat(path)).size,
    isFolder: async (path) => (await stat(path).catch(() => undefined))?.isDirectory() ?? false,
    isExecutable: (path) =>
      access(path, constants.X_OK).then(
        () => true,
        () => false,
      ),
    listFiles: (folder) => readdir(folder),
    runHook: async (script, args, env, log) => {
      await exec(script, args, {
        timeoutMs: HOOK_TIMEOUT_MS,
        env: { ...MINIMAL_ENV, ...env },
        onLine: (line) => log(line),
      });
    },
    localMoment: (ms) => {
      const date = new Date(ms);
      return {
        year: date.getFullYear(),
        month: date.getMonth() + 1,
        day: date.getDate(),
        hour: date.getHours(),
        minute: date.getMinutes(),
        second: date.getSeconds(),
      };
    },
  };
}

/** In the place of what is there, a link included. */
async function writeSideFile(path: string, text: string): Promise<void> {
  await rm(path, { force: true });
  const file = await createPlainFile(path, 0o640);
  try {
    await file.writeFile(text);
  } finally {
    await file.close();
  }
}

function requireThere(err: unknown): void {
  if ((err as NodeJS.ErrnoException).code !== "EEXIST") throw err;
}
