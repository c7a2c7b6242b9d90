// How PVE keeps free text in configuration files: percent-encoded UTF-8, line by line.

/** Control characters, bytes from 0x7f up, `%` and `:` become %XX. */
export function encodeText(text: string): string {
  let out = "";
  for (const byte of new TextEncoder().encode(text)) {
    const safe = byte >= 0x20 && byte < 0x7f && byte !== 0x25 && byte !== 0x3a;
    out += safe ? String.fromCodePoint(byte) : `%${byte.toString(16).toUpperCase().padStart(2, "0")}`;
  }
  return out;
}

export function decodeText(text: string): string {
  if (!text.includes("%")) return text;
  const source = new TextEncoder().encode(text);
  const bytes = new Uint8Array(source.length);
  let length = 0;
  for (let at = 0; at < source.length; at++) {
    const high = source[at] === 0x25 ? hexDigit(source[at + 1]) : undefined;
    const low = high === undefined ? undefined : hexDigit(source[at + 2]);
    if (high !== undefined && low !== undefined) {
      bytes[length++] = high * 16 + low;
      at += 2;
    } else bytes[length++] = source[at] ?? 0;
  }
  return new TextDecoder().decode(bytes.subarray(0, length));
}

function hexDigit(byte: number | undefined): number | undefined {
  if (byte === undefined) return undefined;
  const digit = Number.parseInt(String.fromCodePoint(byte), 16);
  return Number.isNaN(digit) ? undefined : digit;
}
