// Where lines of a growing text file begin: one byte offset for every BLOCK lines. It lives beside the file as
// "<file>.idx" (8 bytes each, little endian), so that a page from the middle of a huge log needs no full read.
// The index is only a help: what is missing or torn is found again by reading on from the last good entry.
import type { FileHandle } from "node:fs/promises";

export const BLOCK = 256;
const CHUNK = 64 * 1024;
const NEWLINE = 10;

export class LineIndex {
  /** Byte offset of line 0, BLOCK, 2 * BLOCK, ... */
  readonly offsets: number[] = [0];
  /** Complete lines so far. */
  lines = 0;
  /** Bytes up to the end of the last complete line. */
  bytes = 0;

  /** Takes in more of the file. Returns how many new entries there are. */
  feed(chunk: Uint8Array): number {
    const before = this.offsets.length;
    const base = this.#fed;
    let at = chunk.indexOf(NEWLINE);
    while (at >= 0) {
      this.lines += 1;
      this.bytes = base + at + 1;
      if (this.lines % BLOCK === 0) this.offsets.push(this.bytes);
      at = chunk.indexOf(NEWLINE, at + 1);
    }
    this.#fed = base + chunk.length;
    return this.offsets.length - before;
  }

  #fed = 0;

  /** Bytes fed, the start of an unfinished last line included. */
  get fed(): number {
    return this.#fed;
  }

  /** Where to begin reading for line `line` (from 0), and how many lines to skip there. */
  seek(line: number): { readonly offset: number; readonly skip: number } {
    const block = Math.min(Math.floor(line / BLOCK), this.offsets.length - 1);
    return { offset: this.offsets[block] ?? 0, skip: line - block * BLOCK };
  }

  /** Entries after the first, as they are stored. */
  encode(fromEntry = 1): Buffer {
    const entries = this.offsets.slice(fromEntry);
    const buffer = Buffer.alloc(entries.length * 8);
    for (const [at, offset] of entries.entries()) buffer.writeBigUInt64LE(BigInt(offset), at * 8);
    return buffer;
  }

  /** Starts from stored entries, as far as they make sense for a file of this size, then reads the rest of it. */
  static async load(file: FileHandle, stored: Buffer): Promise<LineIndex> {
    const index = new LineIndex();
    const { size } = await file.stat();
    for (let at = 0; at + 8 <= stored.length; at += 8) {
      const offset = Number(stored.readBigUInt64LE(at));
      if (offset <= (index.offsets.at(-1) ?? 0) || offset > size) break;
      index.offsets.push(offset);
    }
    index.lines = (index.offsets.length - 1) * BLOCK;
    index.bytes = index.offsets.at(-1) ?? 0;
    index.#fed = index.bytes;
    const buffer = Buffer.alloc(CHUNK);
    for (;;) {
      const { bytesRead } = await file.read(buffer, 0, CHUNK, index.#fed);
      if (bytesRead === 0) return index;
      index.feed(buffer.subarray(0, bytesRead));
    }
  }
}
