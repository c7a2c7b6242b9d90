import { AppError } from "@gpve/contracts/errors.ts";

/** Replies of query-qmp-schema or query-named-block-nodes are megabytes; nothing sane is larger than this. */
export const MAX_LINE_BYTES = 64 * 1024 * 1024;

const NEWLINE = 0x0a;

/** Cuts a byte stream into lines. Bytes are joined before they are decoded, so no character is ever split. */
export class LineFraming {
  readonly #maxBytes: number;
  #parts: Uint8Array[] = [];
  #bytes = 0;

  constructor(maxBytes = MAX_LINE_BYTES) {
    this.#maxBytes = maxBytes;
  }

  /**
   * Complete lines that end in this chunk, without their line ends; empty lines are left out. The chunk may be used
   * for other bytes afterwards.
   */
  push(chunk: Uint8Array): string[] {
    const lines: string[] = [];
    let from = 0;
    for (;;) {
      const end = chunk.indexOf(NEWLINE, from);
      if (end < 0) break;
      this.#keep(chunk.subarray(from, end));
      const line = this.#take();
      if (line !== "") lines.push(line);
      from = end + 1;
    }
    if (from < chunk.length) this.#keep(new Uint8Array(chunk.subarray(from)));
    return lines;
  }

  /** Forgets an unfinished line. */
  reset(): void {
    this.#parts = [];
    this.#bytes = 0;
  }

  #keep(part: Uint8Array): void {
    this.#bytes += part.length;
    if (this.#bytes > this.#maxBytes) {
      this.reset();
      throw new AppError("request.too_large", `a line is longer than ${this.#maxBytes} bytes`);
    }
    this.#parts.push(part);
  }

  #take(): string {
    const text = Buffer.concat(this.#parts).toString("utf8");
    this.reset();
    return text.endsWith("\r") ? text.slice(0, -1) : text;
  }
}
