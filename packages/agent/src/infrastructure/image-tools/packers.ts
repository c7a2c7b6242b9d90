// lzop and bzip2: old programs in C that read what strangers packed. They run confined as all that work on images, see the
// one file they read, and write to a descriptor of ours that holds no more than there is room for.
import type { FileHandle } from "node:fs/promises";
import { isAppError, messageOf } from "@gpve/contracts/errors.ts";
import { tooLarge } from "../storage/fetch/room.ts";
import type { ImageTools } from "./image-tools.ts";

export type Packer = "lzop" | "bzip2";

const MEMORY_BYTES = 1024 ** 3;

export interface PackerWork {
  readonly timeoutMs: number;
  readonly signal?: AbortSignal;
}

/** Throws when the content of `path` has more than `bytes` bytes. */
export function unpackInto(
  tools: ImageTools,
  packer: Packer,
  path: string,
  target: { readonly file: FileHandle; readonly bytes: number },
  work: PackerWork,
): Promise<void> {
  return run(tools, packer, ["-d", "-c", path], path, target, work);
}

export function packInto(
  tools: ImageTools,
  packer: Packer,
  path: string,
  target: { readonly file: FileHandle; readonly bytes: number },
  work: PackerWork,
): Promise<void> {
  return run(tools, packer, ["-c", path], path, target, work);
}

async function run(
  tools: ImageTools,
  packer: Packer,
  args: readonly string[],
  path: string,
  { file, bytes }: { readonly file: FileHandle; readonly bytes: number },
  work: PackerWork,
): Promise<void> {
  await tools(packer, args, [{ path, access: "ro" }], {
    ...work,
    diesWithUs: true,
    stdoutFile: file.fd,
    limits: { as: MEMORY_BYTES, fsize: bytes, nofile: 64 },
  }).catch((err: unknown) => {
    if (isAppError(err, "internal.error") && /SIGXFSZ|File too large/.test(messageOf(err)))
      throw tooLarge(bytes, err);
    throw err;
  });
}
