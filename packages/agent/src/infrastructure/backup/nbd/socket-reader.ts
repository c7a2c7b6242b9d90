import type { Socket } from "node:net";
import { AppError } from "@gpve/contracts/errors.ts";

/** Exact reads from a socket. One reader at a time. */
export class SocketReader {
  readonly #chunks: AsyncIterator<Buffer>;
  #have: Buffer = Buffer.alloc(0);

  constructor(socket: Socket) {
    this.#chunks = (socket as AsyncIterable<Buffer>)[Symbol.asyncIterator]();
  }

  async take(size: number): Promise<Buffer> {
    const parts: Buffer[] = [];
    let got = 0;
    while (got < size) {
      if (this.#have.length === 0) {
        const next = await this.#chunks.next();
        if (next.done === true) throw new AppError("internal.error", "the NBD server closed the connection");
        this.#have = next.value;
        continue;
      }
      const part = this.#have.subarray(0, size - got);
      this.#have = this.#have.subarray(part.length);
      parts.push(part);
      got += part.length;
    }
    const [only] = parts;
    return parts.length === 1 && only !== undefined ? only : Buffer.concat(parts);
  }
}
