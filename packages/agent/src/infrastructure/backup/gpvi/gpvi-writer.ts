import { createHash } from "node:crypto";
import type { IncrementalHeader } from "@gpve/domain/backup/backup-ports.ts";
import type { Sink } from "../byte-sink.ts";
import { encodeEnd, encodeExtent, encodeHead, MAX_EXTENT_BYTES, sha256 } from "./gpvi-format.ts";

const NOTHING = sha256(Buffer.alloc(0));
const MAX_ZERO_BYTES = 2 ** 31;

/** Writes an incremental archive front to back; extents in any order. */
export class GpviWriter {
  readonly #header: IncrementalHeader;
  readonly #sink: Sink;
  readonly #heads = createHash("sha256");
  #count = 0;

  constructor(header: IncrementalHeader, sink: Sink) {
    this.#header = header;
    this.#sink = sink;
  }

  async begin(): Promise<void> {
    await this.#sink(encodeHead(this.#header));
  }

  async data(device: number, offset: number, data: Uint8Array): Promise<void> {
    for (let at = 0; at < data.length; at += MAX_EXTENT_BYTES) {
      const part = data.subarray(at, at + MAX_EXTENT_BYTES);
      await this.#record(device, offset + at, part.length, sha256(part), false);
      await this.#sink(part);
    }
  }

  async zeroes(device: number, offset: number, length: number): Promise<void> {
    for (let at = 0; at < length; at += MAX_ZERO_BYTES)
      await this.#record(device, offset + at, Math.min(length - at, MAX_ZERO_BYTES), NOTHING, true);
  }

  async end(): Promise<void> {
    await this.#sink(encodeEnd(this.#count, this.#heads.digest()));
  }

  async #record(
    device: number,
    offset: number,
    length: number,
    checksum: Buffer,
    isZero: boolean,
  ): Promise<void> {
    const head = encodeExtent({ device, offset, length, isZero, sha256: checksum });
    this.#heads.update(head);
    this.#count++;
    await this.#sink(head);
  }
}
