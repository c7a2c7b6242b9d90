import { CLUSTER_BYTES } from "@gpve/domain/backup/backup-ports.ts";
import type { Sink } from "../byte-sink.ts";
import {
  encodeExtentHead,
  encodeHeader,
  BLOCK_BYTES,
  BLOCKS_PER_CLUSTER,
  CLUSTERS_PER_EXTENT,
  type ClusterInfo,
  type VmaHeader,
} from "./vma-format.ts";

/** Writes an archive front to back. Every cluster of every device is written once, in any order. */
export class VmaWriter {
  readonly #header: VmaHeader;
  readonly #sink: Sink;
  #clusters: ClusterInfo[] = [];
  #blocks: Buffer[] = [];

  constructor(header: VmaHeader, sink: Sink) {
    this.#header = header;
    this.#sink = sink;
  }

  async begin(): Promise<void> {
    await this.#sink(encodeHeader(this.#header));
  }

  /** `data` may be shorter than a cluster at the end of a disk. Blocks of zeros take no room. */
  async cluster(device: number, cluster: number, data: Uint8Array): Promise<void> {
    let mask = 0;
    for (let block = 0; block < BLOCKS_PER_CLUSTER; block++) {
      const bytes = data.subarray(block * BLOCK_BYTES, (block + 1) * BLOCK_BYTES);
      if (isZero(bytes)) continue;
      mask |= 1 << block;
      const stored = Buffer.alloc(BLOCK_BYTES);
      stored.set(bytes);
      this.#blocks.push(stored);
    }
    this.#clusters.push({ device, cluster, mask });
    if (this.#clusters.length === CLUSTERS_PER_EXTENT) await this.#flush();
  }

  /** A cluster that is known to be zero. */
  async zeroCluster(device: number, cluster: number): Promise<void> {
    this.#clusters.push({ device, cluster, mask: 0 });
    if (this.#clusters.length === CLUSTERS_PER_EXTENT) await this.#flush();
  }

  async end(): Promise<void> {
    if (this.#clusters.length > 0) await this.#flush();
  }

  async #flush(): Promise<void> {
    const extent = Buffer.concat([encodeExtentHead(this.#header.uuid, this.#clusters), ...this.#blocks]);
    this.#clusters = [];
    this.#blocks = [];
    await this.#sink(extent);
  }
}

const ZERO = Buffer.alloc(CLUSTER_BYTES);

function isZero(bytes: Uint8Array): boolean {
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).equals(ZERO.subarray(0, bytes.length));
}
