/** Exact reads from a stream of chunks. */
export class ByteReader {
  readonly #source: AsyncIterator<Uint8Array>;
  readonly #broken: (what: string) => Error;
  #have: Buffer = Buffer.alloc(0);

  constructor(source: AsyncIterable<Uint8Array>, broken: (what: string) => Error) {
    this.#source = source[Symbol.asyncIterator]();
    this.#broken = broken;
  }

  async take(size: number): Promise<Buffer> {
    const bytes = await this.takeOrEnd(size);
    if (bytes === undefined) throw this.#broken("it ends too early");
    return bytes;
  }

  /** undefined = the stream ended exactly here. */
  async takeOrEnd(size: number): Promise<Buffer | undefined> {
    const parts: Buffer[] = [];
    let got = 0;
    while (got < size) {
      if (this.#have.length === 0) {
        const next = await this.#source.next();
        if (next.done === true) {
          if (got === 0) return undefined;
          throw this.#broken("it ends too early");
        }
        this.#have = Buffer.from(next.value.buffer, next.value.byteOffset, next.value.byteLength);
        continue;
      }
      const part = this.#have.subarray(0, size - got);
      this.#have = this.#have.subarray(part.length);
      parts.push(part);
      got += part.length;
    }
    return parts.length === 1 ? (parts[0] ?? Buffer.alloc(0)) : Buffer.concat(parts);
  }

  /** All that was not taken, as it comes. */
  async *remainder(): AsyncGenerator<Uint8Array> {
    if (this.#have.length > 0) yield this.#have;
    for (;;) {
      const next = await this.#source.next();
      if (next.done === true) return;
      yield next.value;
    }
  }

  /** The rest is not wanted: whoever feeds the stream may let go of its file. */
  async close(): Promise<void> {
    await this.#source.return?.();
  }
}
