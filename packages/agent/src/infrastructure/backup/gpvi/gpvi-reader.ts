import { createHash } from "node:crypto";
import type {
  IncrementalExtent,
  IncrementalHeader,
  IncrementalReader,
} from "@gpve/domain/backup/backup-ports.ts";
import { ByteReader } from "@gpve/kit/byte-reader.ts";
import {
  broken,
  decodeDescription,
  decodeHead,
  decodeRecord,
  HEAD_BYTES,
  RECORD_BYTES,
  sha256,
} from "./gpvi-format.ts";

/** An incremental archive read front to back: the header, then every extent to the end. */
export class GpviReader implements IncrementalReader {
  readonly header: IncrementalHeader;
  readonly #input: ByteReader;

  private constructor(header: IncrementalHeader, input: ByteReader) {
    this.header = header;
    this.#input = input;
  }

  static async open(source: AsyncIterable<Uint8Array>): Promise<GpviReader> {
    const input = new ByteReader(source, broken);
    try {
      const { length, checksum } = decodeHead(await input.take(HEAD_BYTES));
      return new GpviReader(decodeDescription(await input.take(length), checksum), input);
    } catch (err) {
      await input.close();
      throw err;
    }
  }

  async *extents(): AsyncGenerator<IncrementalExtent> {
    const heads = createHash("sha256");
    let count = 0;
    for (;;) {
      const record = await this.#input.take(RECORD_BYTES);
      const head = decodeRecord(record);
      if ("checksum" in head) {
        if (head.extents !== count) throw broken(`it should have ${head.extents} extents and has ${count}`);
        if (!heads.digest().equals(head.checksum)) throw broken("the checksum of its extents does not match");
        if ((await this.#input.takeOrEnd(1)) !== undefined) throw broken("it goes on after its end");
        return;
      }
      heads.update(record);
      count++;
      const device = this.header.devices[head.device];
      if (device === undefined)
        throw broken(`it has data for device ${head.device}, which it does not describe`);
      if (head.offset + head.length > device.size) throw broken(`${device.name} has data beyond its end`);
      const data = head.isZero ? undefined : await this.#input.take(head.length);
      if (data !== undefined && !sha256(data).equals(head.sha256))
        throw broken(`the data of ${device.name} at ${head.offset} does not match its checksum`);
      yield { device: head.device, offset: head.offset, length: head.length, data };
    }
  }

  /** Lets go of the stream; for those who want the header alone. */
  async close(): Promise<void> {
    await this.#input.close();
  }
}
