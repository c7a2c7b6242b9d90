// Bytes as keys: order, ranges and text.
import type { Bytes } from "./port.ts";

const encoder = new TextEncoder();
const decoder = new TextDecoder("utf-8", { fatal: true });

export function utf8(text: string): Bytes {
  return encoder.encode(text);
}

/** Throws on bytes that are not UTF-8: a key silently changed is a key lost. */
export function fromUtf8(bytes: Bytes): string {
  return decoder.decode(bytes);
}

/** memcmp, shorter first. */
export function compareBytes(a: Bytes, b: Bytes): number {
  const length = Math.min(a.length, b.length);
  for (let i = 0; i < length; i++) {
    const difference = (a[i] ?? 0) - (b[i] ?? 0);
    if (difference !== 0) return difference;
  }
  return a.length - b.length;
}

export function equalBytes(a: Bytes, b: Bytes): boolean {
  return a.length === b.length && compareBytes(a, b) === 0;
}

/** The end of a range that has no end, as etcd writes it. */
export const TO_THE_END: Bytes = Uint8Array.of(0);

/** The smallest key after all keys that start with `prefix`. An empty or all-0xff prefix has no such key. */
export function prefixEnd(prefix: Bytes): Bytes {
  for (let i = prefix.length - 1; i >= 0; i--) {
    const byte = prefix[i] ?? 0;
    if (byte < 0xff) {
      const end = prefix.slice(0, i + 1);
      end[i] = byte + 1;
      return end;
    }
  }
  return TO_THE_END;
}

/** The next possible key: where the following page of a range starts. */
export function keyAfter(key: Bytes): Bytes {
  const next = new Uint8Array(key.length + 1);
  next.set(key);
  return next;
}

export function isToTheEnd(end: Bytes): boolean {
  return end.length === 1 && end[0] === 0;
}

export function inRange(key: Bytes, start: Bytes, end: Bytes | undefined): boolean {
  if (end === undefined) return equalBytes(key, start);
  return compareBytes(key, start) >= 0 && (isToTheEnd(end) || compareBytes(key, end) < 0);
}

/** A string that is equal exactly when the bytes are: for maps and sets. */
export function mapKey(key: Bytes): string {
  return Buffer.from(key.buffer, key.byteOffset, key.byteLength).toString("latin1");
}
