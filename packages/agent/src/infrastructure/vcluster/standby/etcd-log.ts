// The log of an etcd that does not run. A member that goes on alone (--force-new-cluster) forgets what it has in its log and does not
// know to be confirmed, and the other one may have answered just that: who confirmed last hears that it counts with the next
// write only. Here all that is in the log is said to be confirmed, as it is for an etcd that has always been alone.
//
//   DATA/member/wal/<number>-<first index>.wal   records: length, padding in its upper byte; type, sum so far, data (protobuf)
import { closeSync, fsyncSync, openSync, readdirSync, readFileSync, writeSync } from "node:fs";
import { join } from "node:path";
import { AppError } from "@gpve/contracts/errors.ts";

const ENTRY = 2;
const STATE = 3;
const SUM = 4;
/** What is written at once; a loss of power leaves zeros where one of them is missing. */
const SECTOR_BYTES = 512;
const LENGTH_BYTES = 8;

interface LogEnd {
  /** Behind the last whole record. */
  readonly offset: number;
  /** Of all that is before. */
  readonly sum: number;
  readonly lastIndex: bigint;
  readonly state: Readonly<Record<"term" | "vote" | "commit", bigint>> | undefined;
}

/** Says whether there was something. */
export function confirmWholeLog(dataFolder: string): boolean {
  const folder = join(dataFolder, "member", "wal");
  const name = readdirSync(folder)
    .filter((each) => /^[0-9a-f]{16}-[0-9a-f]{16}\.wal$/.test(each))
    .toSorted()
    .at(-1);
  if (name === undefined) throw unreadable(folder, "it has no part");
  const path = join(folder, name);
  const bytes = readFileSync(path);
  const end = readToEnd(bytes, path);
  const { state, lastIndex } = end;
  // A part that begins has the state of the one before; none at all has been told nothing yet.
  if (state === undefined || lastIndex <= state.commit) return false;
  const record = stateRecord(end.sum, { ...state, commit: lastIndex });
  // What was begun behind the end and is not whole would not be understood any more.
  const rest = Buffer.alloc(Math.max(0, bytes.length - end.offset - record.length));
  const file = openSync(path, "r+");
  try {
    writeAll(file, Buffer.concat([record, rest]), end.offset);
    fsyncSync(file);
  } finally {
    closeSync(file);
  }
  return true;
}

function readToEnd(bytes: Buffer, path: string): LogEnd {
  let [offset, sum] = [0, 0];
  let state: LogEnd["state"];
  // It begins behind the last entry of the part before.
  let lastIndex = BigInt(`0x${/-([0-9a-f]{16})\.wal$/.exec(path)?.[1] ?? "0"}`) - 1n;
  while (offset + LENGTH_BYTES <= bytes.length) {
    const length = bytes.readUIntLE(offset, 6) + bytes.readUInt8(offset + 6) * 2 ** 48;
    const padding = bytes.readUInt8(offset + 7) & 0x07;
    if (length === 0 && bytes.readUInt8(offset + 7) === 0) break;
    const begin = offset + LENGTH_BYTES;
    const next = begin + length + padding;
    if (next > bytes.length) break;
    const record = readRecord(bytes.subarray(begin, begin + length));
    const { type, data } = record ?? {};
    if (type === SUM) sum = record?.sum ?? 0;
    const now = data === undefined ? sum : crc32c(sum, data);
    if (record === undefined || (type !== SUM && record.sum !== now)) {
      if (isTorn(bytes, begin, next)) break;
      throw unreadable(path, `the record at ${offset} is not what was written`);
    }
    sum = now;
    if (type === ENTRY && data !== undefined) lastIndex = readNumbers(data).get(3) ?? 0n;
    if (type === STATE && data !== undefined) {
      const fields = readNumbers(data);
      const of = (field: number): bigint => fields.get(field) ?? 0n;
      state = { term: of(1), vote: of(2), commit: of(3) };
    }
    offset = next;
  }
  return { offset, sum, lastIndex, state };
}

function isTorn(bytes: Buffer, begin: number, end: number): boolean {
  for (let at = begin; at < end;) {
    const next = Math.min(end, at - (at % SECTOR_BYTES) + SECTOR_BYTES);
    if (bytes.subarray(at, next).every((byte) => byte === 0)) return true;
    at = next;
  }
  return false;
}

interface LogRecord {
  readonly type: number;
  readonly sum: number;
  readonly data: Buffer | undefined;
}

function readRecord(bytes: Buffer): LogRecord | undefined {
  let [type, sum] = [0, 0];
  let data: Buffer | undefined;
  for (const { field, value } of fieldsOf(bytes)) {
    if (value === undefined) return undefined;
    if (field === 1) type = Number(value);
    if (field === 2) sum = Number(value);
    if (field === 3 && typeof value !== "bigint") data = value;
  }
  return { type, sum, data };
}

function readNumbers(bytes: Buffer): ReadonlyMap<number, bigint> {
  const found = new Map<number, bigint>();
  for (const { field, value } of fieldsOf(bytes)) if (typeof value === "bigint") found.set(field, value);
  return found;
}

/** Numbers and bytes of a protobuf message; a value that is undefined says that it is none. */
function* fieldsOf(
  bytes: Buffer,
): Generator<{ readonly field: number; readonly value: bigint | Buffer | undefined }> {
  let at = 0;
  const number = (): bigint | undefined => {
    let value = 0n;
    for (let shift = 0n; shift < 70n && at < bytes.length; shift += 7n) {
      const byte = bytes.readUInt8(at++);
      value |= BigInt(byte & 0x7f) << shift;
      if (byte < 0x80) return value;
    }
    return undefined;
  };
  while (at < bytes.length) {
    const tag = number();
    const [field, kind] = [Number((tag ?? 0n) >> 3n), Number((tag ?? 0n) & 7n)];
    const first = tag === undefined || (kind !== 0 && kind !== 2) ? undefined : number();
    if (first === undefined || (kind === 2 && at + Number(first) > bytes.length)) {
      yield { field, value: undefined };
      return;
    }
    if (kind === 0) yield { field, value: first };
    else {
      yield { field, value: bytes.subarray(at, at + Number(first)) };
      at += Number(first);
    }
  }
}

function stateRecord(sum: number, { term, vote, commit }: NonNullable<LogEnd["state"]>): Buffer {
  const data = Buffer.concat([
    varint(0x08),
    varint(term),
    varint(0x10),
    varint(vote),
    varint(0x18),
    varint(commit),
  ]);
  const record = Buffer.concat([
    varint(0x08),
    varint(STATE),
    varint(0x10),
    varint(crc32c(sum, data)),
    varint(0x1a),
    varint(data.length),
    data,
  ]);
  const padding = (8 - (record.length % 8)) % 8;
  const length = Buffer.alloc(LENGTH_BYTES);
  length.writeUIntLE(record.length, 0, 6);
  length.writeUInt8(padding === 0 ? 0 : 0x80 | padding, 7);
  return Buffer.concat([length, record, Buffer.alloc(padding)]);
}

function varint(value: bigint | number): Buffer {
  const bytes: number[] = [];
  let left = BigInt(value);
  for (; left >= 0x80n; left >>= 7n) bytes.push(Number(left & 0x7fn) | 0x80);
  return Buffer.from([...bytes, Number(left)]);
}

function writeAll(file: number, bytes: Buffer, offset: number): void {
  for (let done = 0; done < bytes.length;)
    done += writeSync(file, bytes, done, bytes.length - done, offset + done);
}

const CASTAGNOLI = Uint32Array.from({ length: 256 }, (_, byte) => {
  let sum = byte;
  for (let bit = 0; bit < 8; bit++) sum = (sum & 1) === 1 ? (sum >>> 1) ^ 0x82f6_3b78 : sum >>> 1;
  return sum >>> 0;
});

/** Node has the other polynomial only. */
function crc32c(before: number, bytes: Uint8Array): number {
  let sum = ~before >>> 0;
  for (const byte of bytes) sum = ((CASTAGNOLI[(sum ^ byte) & 0xff] ?? 0) ^ (sum >>> 8)) >>> 0;
  return ~sum >>> 0;
}

function unreadable(path: string, why: string): AppError {
  return new AppError(
    "internal.error",
    `the log of an etcd at ${path} cannot be read: ${why}. Nothing was changed; restore the cluster from a backup, or save that folder and ask`,
  );
}
