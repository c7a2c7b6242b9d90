// Reads and writes inside disk images as a guest would, for tests.
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { exec } from "@gpve/kit/exec.ts";

/** qemu-io patterns are single bytes, so whole texts go in and out through files. */
export async function writeImage(
  path: string,
  format: string,
  offset: number,
  bytes: Uint8Array,
): Promise<void> {
  const folder = mkdtempSync(join(tmpdir(), "gpve-io-"));
  try {
    const file = join(folder, "bytes");
    const sector = Buffer.from(await readImage(path, format, align(offset), 512));
    sector.set(bytes, offset - align(offset));
    writeFileSync(file, sector);
    await exec("qemu-io", ["-f", format, "-c", `write -q -s ${file} ${align(offset)} 512`, path]);
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

export async function readImage(
  path: string,
  format: string,
  offset: number,
  length: number,
): Promise<Uint8Array> {
  const folder = mkdtempSync(join(tmpdir(), "gpve-io-"));
  try {
    const file = join(folder, "image.raw");
    await exec("qemu-img", ["convert", "-f", format, "-O", "raw", path, file]);
    return new Uint8Array(readFileSync(file).subarray(offset, offset + length));
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

function align(offset: number): number {
  return offset - (offset % 512);
}
