// What a store and its standby say to each other: frames of a head in JSON and rows of the history.
//
//   u32 bytes of all that follows | u32 bytes of the head | head | rows
//   row: u32 key | u32 value | f64 created | f64 modified | f64 version | i64 lease | key | value
import { AppError } from "@gpve/contracts/errors.ts";
import type { KeyValue } from "../port.ts";

/** Leases as text: JSON has no numbers of that size. */
export type WrittenLease = readonly [id: string, ttlSeconds: number];

export type Head =
  /** The store, first: who it is, and what it has. */
  | { readonly type: "hello"; readonly generation: number; readonly compacted: number }
  /** The standby's answer: how far it is, and the sum over that; revision 0 = nothing that could be gone on with. */
  | { readonly type: "position"; readonly revision: number; readonly hash: number }
  /** Rows follow: all of them, or those that are missing. */
  | { readonly type: "begin"; readonly whole: boolean }
  | { readonly type: "rows" }
  /** That was all of them. */
  | {
      readonly type: "settle";
      readonly seq: number;
      readonly revision: number;
      readonly compacted: number;
      readonly leases: readonly WrittenLease[];
    }
  | {
      readonly type: "change";
      readonly seq: number;
      readonly revision: number;
      readonly granted?: readonly WrittenLease[];
      readonly revoked?: readonly string[];
      readonly compacted?: number;
    }
  | { readonly type: "ping"; readonly seq: number }
  /** The standby has everything up to there on its disk. */
  | { readonly type: "ack"; readonly seq: number };

export interface Frame {
  readonly head: Head;
  readonly rows: readonly KeyValue[];
}

const ROW_HEAD = 40;
/** A transaction has 1.5 MiB at most, a batch 64 of them. */
const MOST_BYTES = 256 * 1024 * 1024;

export function encodeFrame(head: Head, rows: readonly KeyValue[] = []): Buffer {
  const json = Buffer.from(JSON.stringify(head));
  const parts: Uint8Array[] = [Buffer.alloc(8), json];
  for (const { key, value, createRevision, modRevision, version, lease } of rows) {
    const row = Buffer.alloc(ROW_HEAD);
    row.writeUInt32BE(key.length, 0);
    row.writeUInt32BE(value.length, 4);
    row.writeDoubleBE(createRevision, 8);
    row.writeDoubleBE(modRevision, 16);
    row.writeDoubleBE(version, 24);
    row.writeBigInt64BE(BigInt.asIntN(64, lease), 32);
    parts.push(row, key, value);
  }
  const whole = Buffer.concat(parts);
  whole.writeUInt32BE(whole.length - 4, 0);
  whole.writeUInt32BE(json.length, 4);
  return whole;
}

/** Puts frames together from what comes. */
export class FrameReader {
  #chunks: Buffer[] = [];
  #length = 0;

  /** The frames that are whole now. Throws on what is none. */
  push(chunk: Buffer): Frame[] {
    this.#chunks.push(chunk);
    this.#length += chunk.length;
    const frames: Frame[] = [];
    for (;;) {
      const size = this.#size();
      if (size === undefined || this.#length < size + 4) return frames;
      const all = this.#joined();
      frames.push(decodeFrame(all.subarray(4, size + 4)));
      this.#chunks = [all.subarray(size + 4)];
      this.#length -= size + 4;
    }
  }

  #size(): number | undefined {
    if (this.#length < 4) return undefined;
    const first = this.#chunks[0];
    const size = (first !== undefined && first.length >= 4 ? first : this.#joined()).readUInt32BE(0);
    if (size < 4 || size > MOST_BYTES) throw malformed(`a frame of ${size} bytes`);
    return size;
  }

  #joined(): Buffer {
    const [first] = this.#chunks;
    const all = this.#chunks.length === 1 && first !== undefined ? first : Buffer.concat(this.#chunks);
    this.#chunks = [all];
    return all;
  }
}

function decodeFrame(frame: Buffer): Frame {
  const headLength = frame.readUInt32BE(0);
  if (headLength > frame.length - 4) throw malformed("a head that is longer than its frame");
  let head: Head;
  try {
    head = JSON.parse(frame.toString("utf8", 4, 4 + headLength)) as Head;
  } catch {
    throw malformed("a head that is no JSON");
  }
  const rows: KeyValue[] = [];
  let at = 4 + headLength;
  while (at < frame.length) {
    if (at + ROW_HEAD > frame.length) throw malformed("a row that is cut off");
    const [keyLength, valueLength] = [frame.readUInt32BE(at), frame.readUInt32BE(at + 4)];
    const end = at + ROW_HEAD + keyLength + valueLength;
    if (end > frame.length) throw malformed("a row that is cut off");
    // Copies: the frame is larger than what is kept of it.
    const bytes = Buffer.from(frame.subarray(at + ROW_HEAD, end));
    rows.push({
      key: bytes.subarray(0, keyLength),
      value: bytes.subarray(keyLength),
      createRevision: frame.readDoubleBE(at + 8),
      modRevision: frame.readDoubleBE(at + 16),
      version: frame.readDoubleBE(at + 24),
      lease: frame.readBigInt64BE(at + 32),
    });
    at = end;
  }
  return { head, rows };
}

function malformed(what: string): AppError {
  return new AppError("request.invalid", `a store and its standby do not understand each other: ${what}`);
}
