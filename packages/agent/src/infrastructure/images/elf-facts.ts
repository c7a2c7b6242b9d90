// What a 64-bit little-endian ELF file asks of others: its interpreter and the libraries it needs.

export interface ElfFacts {
  readonly interpreter: string | undefined;
  readonly needed: readonly string[];
}

const PT_LOAD = 1;
const PT_DYNAMIC = 2;
const PT_INTERP = 3;
const DT_NEEDED = 1;
const DT_STRTAB = 5;

interface Segment {
  readonly type: number;
  readonly offset: number;
  readonly address: number;
  readonly size: number;
}

/** undefined = not such an ELF file. */
export function elfFacts(bytes: Uint8Array): ElfFacts | undefined {
  const view = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const isElf = view.length >= 64 && view.readUInt32BE(0) === 0x7f454c46 && view[4] === 2 && view[5] === 1;
  if (!isElf) return undefined;
  const segments = readSegments(view);
  const interpreter = segments.find(({ type }) => type === PT_INTERP);
  const dynamic = segments.find(({ type }) => type === PT_DYNAMIC);
  return {
    interpreter: interpreter === undefined ? undefined : textAt(view, interpreter.offset),
    needed: dynamic === undefined ? [] : readNeeded(view, segments, dynamic),
  };
}

function readSegments(view: Buffer): Segment[] {
  const start = Number(view.readBigUInt64LE(32));
  const entrySize = view.readUInt16LE(54);
  return Array.from({ length: view.readUInt16LE(56) }, (_, index) => {
    const at = start + index * entrySize;
    return {
      type: view.readUInt32LE(at),
      offset: Number(view.readBigUInt64LE(at + 8)),
      address: Number(view.readBigUInt64LE(at + 16)),
      size: Number(view.readBigUInt64LE(at + 32)),
    };
  });
}

function readNeeded(view: Buffer, segments: readonly Segment[], dynamic: Segment): string[] {
  const entries: [number, number][] = [];
  for (let at = dynamic.offset; at + 16 <= dynamic.offset + dynamic.size; at += 16) {
    entries.push([Number(view.readBigInt64LE(at)), Number(view.readBigUInt64LE(at + 8))]);
  }
  const table = entries.find(([tag]) => tag === DT_STRTAB)?.[1] ?? 0;
  const home = segments.find(
    ({ type, address, size }) => type === PT_LOAD && table >= address && table < address + size,
  );
  if (home === undefined) return [];
  const offset = home.offset + table - home.address;
  return entries.filter(([tag]) => tag === DT_NEEDED).map(([, name]) => textAt(view, offset + name));
}

function textAt(view: Buffer, offset: number): string {
  return view.toString("latin1", offset, view.indexOf(0, offset));
}
