// Inputs for readers of other people's bytes: a kept example, changed a little or a lot. The same number makes the same
// input again.
import type { Random } from "./random.ts";

export interface MutateOptions {
  /** Words of the format; put in and put over. */
  readonly words: readonly Buffer[];
  readonly maxBytes: number;
}

type Change = (bytes: Buffer, random: Random, from: readonly Buffer[], options: MutateOptions) => Buffer;

/** Numbers at which readers err: edges of their widths, signs, sizes that wrap. */
const NUMBERS = [
  0n,
  1n,
  2n,
  0x7fn,
  0x80n,
  0xffn,
  0x7fffn,
  0x8000n,
  0xffffn,
  0x10000n,
  0x7fffffffn,
  0x80000000n,
  0xfffffffen,
  0xffffffffn,
  0x1fffffffffffffn,
  0x7fffffffffffffffn,
  0xffffffffffffffffn,
];

const CHANGES: readonly Change[] = [
  flipBits,
  flipBits,
  setBytes,
  setNumber,
  setNumber,
  setNumber,
  cutOff,
  removePart,
  repeatPart,
  copyWithin,
  putWord,
  putWord,
  splice,
];
/** A part repeated until the input is large shows what takes the square of its length. */
const GROWS = 0.001;

export function mutate(random: Random, from: readonly Buffer[], options: MutateOptions): Buffer {
  let bytes: Buffer = Buffer.from(random.pick(from));
  for (let count = 1 + random.below(4) * random.below(4); count > 0; count--)
    bytes = random.pick(CHANGES)(bytes, random, from, options);
  if (random.chance(GROWS)) bytes = grow(bytes, random, options.maxBytes);
  return bytes.length > options.maxBytes ? bytes.subarray(0, options.maxBytes) : bytes;
}

function flipBits(bytes: Buffer, random: Random): Buffer {
  for (let count = 1 + random.below(8); count > 0 && bytes.length > 0; count--) {
    const at = place(bytes, random);
    bytes.writeUInt8(bytes.readUInt8(at) ^ (1 << random.below(8)), at);
  }
  return bytes;
}

function setBytes(bytes: Buffer, random: Random): Buffer {
  const at = place(bytes, random);
  bytes.fill(
    random.pick([0, 0xff, 0x20, random.below(256)]),
    at,
    Math.min(at + 1 + random.below(16), bytes.length),
  );
  return bytes;
}

function setNumber(bytes: Buffer, random: Random): Buffer {
  const width = random.pick([1, 2, 4, 8]);
  if (bytes.length < width) return bytes;
  const raw = Buffer.alloc(8);
  raw.writeBigUInt64BE(random.pick(NUMBERS));
  const number = raw.subarray(8 - width);
  if (random.chance(0.5)) number.reverse();
  const aligned = Math.floor(place(bytes, random) / width) * width;
  number.copy(bytes, Math.min(aligned, bytes.length - width));
  return bytes;
}

function cutOff(bytes: Buffer, random: Random): Buffer {
  return random.chance(0.3) ? bytes.subarray(0, random.below(bytes.length + 1)) : bytes;
}

function removePart(bytes: Buffer, random: Random): Buffer {
  const at = place(bytes, random);
  return Buffer.concat([bytes.subarray(0, at), bytes.subarray(at + 1 + random.below(64))]);
}

function repeatPart(bytes: Buffer, random: Random): Buffer {
  const at = place(bytes, random);
  const part = bytes.subarray(at, at + 1 + random.below(64));
  const times = 1 + random.below(8);
  const copies = Array.from({ length: times }, () => part);
  return Buffer.concat([bytes.subarray(0, at), ...copies, bytes.subarray(at)]);
}

/** Tables that lead into each other are made of one that is somewhere else too. */
function copyWithin(bytes: Buffer, random: Random): Buffer {
  const length = random.pick([4, 12, 32, 128, 1024]);
  const from = place(bytes, random);
  bytes.copyWithin(place(bytes, random), from, from + length);
  return bytes;
}

function putWord(bytes: Buffer, random: Random, _from: readonly Buffer[], { words }: MutateOptions): Buffer {
  if (words.length === 0) return flipBits(bytes, random);
  const word = random.pick(words);
  const at = place(bytes, random);
  const after = random.chance(0.5) ? at + word.length : at;
  return Buffer.concat([bytes.subarray(0, at), word, bytes.subarray(after)]);
}

function splice(bytes: Buffer, random: Random, from: readonly Buffer[]): Buffer {
  const other = random.pick(from);
  const at = place(other, random);
  return Buffer.concat([bytes.subarray(0, place(bytes, random)), other.subarray(at, at + 4096)]);
}

function grow(bytes: Buffer, random: Random, maxBytes: number): Buffer {
  const at = place(bytes, random);
  const part = bytes.subarray(at, at + 1 + random.below(32));
  if (part.length === 0) return bytes;
  const room = Math.max(0, maxBytes - bytes.length);
  return Buffer.concat([bytes.subarray(0, at), Buffer.alloc(room, part), bytes.subarray(at)]);
}

/** Most of what matters lies at the beginning. */
function place(bytes: Buffer, random: Random): number {
  return random.chance(0.5) ? random.below(Math.min(bytes.length, 512)) : random.below(bytes.length);
}
