// The header of a qcow2 image, read without starting anything. Lists need sizes of hundreds of images, and what an
// image says of other files must be known before any tool opens it.
// Layout: qemu/docs/interop/qcow2.txt.

export interface Qcow2Header {
  readonly version: number;
  readonly size: number;
  readonly backingFile: string | undefined;
  readonly backingFormat: string | undefined;
  /** The guest's bytes lie in another file that the image names. */
  readonly externalData: boolean;
  readonly encrypted: boolean;
  readonly snapshots: number;
}

const MAGIC = 0x514649fb;
const V3_BYTES = 104;
const EXTERNAL_DATA = 1n << 2n;
const EXTENSION_END = 0;
const EXTENSION_BACKING_FORMAT = 0xe2792aca;
const EXTENSION_DATA_FILE = 0x44415441;
/** Bytes that hold everything we read of a header. */
export const QCOW2_HEADER_BYTES = 64 * 1024;

export function isQcow2(bytes: Uint8Array): boolean {
  return bytes.length >= 4 && new DataView(bytes.buffer, bytes.byteOffset, 4).getUint32(0) === MAGIC;
}

/** undefined = no qcow2 image; throws RangeError on one that is broken. */
export function parseQcow2Header(bytes: Uint8Array): Qcow2Header | undefined {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  if (bytes.length < 72 || view.getUint32(0) !== MAGIC) return undefined;
  const version = view.getUint32(4);
  if (version !== 2 && version !== 3) throw new RangeError(`unknown qcow2 version ${version}`);
  const backingOffset = Number(view.getBigUint64(8));
  const backingLength = view.getUint32(16);
  const size = view.getBigUint64(24);
  if (size > BigInt(Number.MAX_SAFE_INTEGER)) throw new RangeError("absurd virtual size");
  if (backingLength > 1023) throw new RangeError("the name of the backing file is too long");
  if (version === 3 && bytes.length < V3_BYTES) throw new RangeError("the header is cut off");
  const features = version === 3 ? view.getBigUint64(72) : 0n;
  const headerLength = version === 3 ? view.getUint32(100) : 72;
  if (headerLength > bytes.length) throw new RangeError("the header is too long");
  const extensions = readExtensions(view, headerLength, backingOffset === 0 ? bytes.length : backingOffset);
  const format = extensions.get(EXTENSION_BACKING_FORMAT);
  return {
    version,
    size: Number(size),
    backingFile: backingOffset === 0 ? undefined : textAt(bytes, backingOffset, backingLength),
    backingFormat: format === undefined ? undefined : new TextDecoder().decode(format),
    externalData: (features & EXTERNAL_DATA) !== 0n || extensions.has(EXTENSION_DATA_FILE),
    encrypted: view.getUint32(32) !== 0,
    snapshots: view.getUint32(60),
  };
}

function readExtensions(view: DataView, start: number, end: number): Map<number, Uint8Array> {
  const found = new Map<number, Uint8Array>();
  let at = start;
  while (at + 8 <= Math.min(end, view.byteLength)) {
    const type = view.getUint32(at);
    if (type === EXTENSION_END) break;
    const length = view.getUint32(at + 4);
    if (at + 8 + length > view.byteLength) throw new RangeError("a header extension is too long");
    found.set(type, new Uint8Array(view.buffer, view.byteOffset + at + 8, length));
    at += 8 + Math.ceil(length / 8) * 8;
  }
  return found;
}

function textAt(bytes: Uint8Array, offset: number, length: number): string {
  if (offset + length > bytes.length)
    throw new RangeError("the name of the backing file lies outside the header");
  return new TextDecoder().decode(bytes.subarray(offset, offset + length));
}
