import type { FileHandle } from "node:fs/promises";

/** A new image to be filled. What is written here is written by the descriptor: another file may take its name. */
export interface EmptyImage {
  readonly path: string;
  readonly file: FileHandle;
}
