import { CLUSTER_BYTES } from "@gpve/domain/backup/backup-ports.ts";
import { ByteReader } from "@gpve/kit/byte-reader.ts";
import { SeenClusters } from "./seen-clusters.ts";
import {
  BLOCK_BYTES,
  BLOCKS_PER_CLUSTER,
  broken,
  clusterCount,
  decodeExtentHead,
  decodeHeader,
  EXTENT_HEAD_BYTES,
  HEADER_FIXED_BYTES,
  headerSize,
  VMSTATE_DEVICE,
  type VmaDevice,
  type VmaHeader,
} from "./vma-format.ts";

export interface VmaCluster {
  readonly device: VmaDevice;
  /** Byte position on the disk. */
  readonly offset: number;
  /** Not longer than what is left of the disk. Valid until the next cluster is asked for. */
  readonly data: Buffer;
  readonly isZero: boolean;
}

/** An archive read front to back. `header` first, then `clusters` to the end: only then is the archive known whole. */
export class VmaReader {
  readonly header: VmaHeader;
  readonly #input: ByteReader;
  readonly #devices: ReadonlyMap<number, VmaDevice>;
  readonly #seen = new Map<number, SeenClusters>();

  private constructor(header: VmaHeader, input: ByteReader) {
    this.header = header;
    this.#input = input;
    this.#devices = new Map(header.devices.map((device) => [device.id, device]));
    for (const { id, name, size } of header.devices) {
      if (name !== VMSTATE_DEVICE) this.#seen.set(id, new SeenClusters(clusterCount(size)));
    }
  }

  static async open(source: AsyncIterable<Uint8Array>): Promise<VmaReader> {
    const input = new ByteReader(source, broken);
    try {
      const start = await input.take(HEADER_FIXED_BYTES);
      const rest = await input.take(headerSize(start) - HEADER_FIXED_BYTES);
      return new VmaReader(decodeHeader(Buffer.concat([start, rest])), input);
    } catch (err) {
      await input.close();
      throw err;
    }
  }

  /** Throws on anything that is not as it was written: cut off, changed, a cluster twice or missing. */
  async *clusters(): AsyncGenerator<VmaCluster> {
    const buffer = Buffer.alloc(CLUSTER_BYTES);
    for (;;) {
      const head = await this.#input.takeOrEnd(EXTENT_HEAD_BYTES);
      if (head === undefined) break;
      for (const { device: id, cluster, mask } of decodeExtentHead(head, this.header.uuid).clusters) {
        const device = this.#devices.get(id);
        if (device === undefined)
          throw broken(`it has data for device ${id}, which its header does not know`);
        this.#note(device, cluster);
        for (let block = 0; block < BLOCKS_PER_CLUSTER; block++) {
          const part = buffer.subarray(block * BLOCK_BYTES, (block + 1) * BLOCK_BYTES);
          if ((mask & (1 << block)) === 0) part.fill(0);
          else (await this.#input.take(BLOCK_BYTES)).copy(part);
        }
        const offset = cluster * CLUSTER_BYTES;
        const length =
          device.name === VMSTATE_DEVICE ? CLUSTER_BYTES : Math.min(CLUSTER_BYTES, device.size - offset);
        yield { device, offset, data: buffer.subarray(0, length), isZero: mask === 0 };
      }
    }
    this.#checkComplete();
  }

  /** Lets go of the stream; for those who want the header alone. */
  async close(): Promise<void> {
    await this.#input.close();
  }

  #note(device: VmaDevice, cluster: number): void {
    const seen = this.#seen.get(device.id)?.note(cluster);
    if (seen === "beyond") throw broken(`${device.name} has data beyond its end`);
    if (seen === "again") throw broken(`cluster ${cluster} of ${device.name} is there twice`);
  }

  #checkComplete(): void {
    for (const device of this.header.devices) {
      const missing = this.#seen.get(device.id)?.firstMissing();
      if (missing !== undefined)
        throw broken(`${device.name} is not complete: cluster ${missing} is missing`);
    }
  }
}
