import { mkdir, open, readFile } from "node:fs/promises";
import type { FileHandle } from "node:fs/promises";
import { dirname } from "node:path";
import { isMissingFile } from "../missing-file.ts";

export function indexPath(path: string): string {
  return `${path}.idx`;
}

export async function readIndex(path: string): Promise<Buffer> {
  try {
    return await readFile(indexPath(path));
  } catch (error) {
    if (isMissingFile(error)) return Buffer.alloc(0);
    throw error;
  }
}

export async function openForAppend(path: string): Promise<FileHandle> {
  await mkdir(dirname(path), { recursive: true, mode: 0o750 });
  return open(path, "a+", 0o640);
}
