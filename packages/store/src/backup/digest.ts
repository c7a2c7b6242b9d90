import { createHash } from "node:crypto";
import type { Bytes, Store } from "../port.ts";
import { readAll } from "../read-all.ts";
import { TO_THE_END } from "../keys.ts";

/** The whole key space. */
export const EVERYTHING = { key: Uint8Array.of(0), end: TO_THE_END } as const;

export interface Contents {
  readonly count: number;
  /** Over all keys and values in key order. */
  readonly sha256: string;
}

/** Sums up keys and values in order. Lengths are part of it, so that no two contents run together. */
export class ContentDigest {
  readonly #hash = createHash("sha256");
  #count = 0;

  add(key: Bytes, value: Bytes): void {
    const lengths = Buffer.alloc(8);
    lengths.writeUInt32BE(key.length, 0);
    lengths.writeUInt32BE(value.length, 4);
    this.#hash.update(lengths).update(key).update(value);
    this.#count += 1;
  }

  result(): Contents {
    return { count: this.#count, sha256: this.#hash.copy().digest("hex") };
  }
}

/** What a store holds now, without what is tied to leases. */
export async function contentsOf(store: Store, signal?: AbortSignal): Promise<Contents> {
  const digest = new ContentDigest();
  await readAll(store, EVERYTHING, signal, (kvs) => {
    for (const kv of kvs) if (kv.lease === 0n) digest.add(kv.key, kv.value);
  });
  return digest.result();
}
