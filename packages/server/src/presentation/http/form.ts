// Form and query decoding with PVE's rules: pairs split on "&" or ";", text after a second "=" in a pair is
// dropped, a bare key counts as absent, a repeated key becomes an array, "+" is a space.

export type FormValue = string | string[];

export function parseForm(text: string): Record<string, FormValue> {
  const out: Record<string, FormValue> = Object.create(null) as Record<string, FormValue>;
  if (text === "") return out;
  for (const pair of text.split(/[&;]/)) {
    if (pair === "") continue;
    const [rawKey = "", rawValue] = pair.split("=", 3);
    if (rawValue === undefined) continue;
    const key = decode(rawKey);
    const value = decode(rawValue);
    const before = out[key];
    if (before === undefined) out[key] = value;
    else if (Array.isArray(before)) before.push(value);
    else out[key] = [before, value];
  }
  return out;
}

/** Percent-decoding that cannot fail: a broken escape stays as it is, bytes that are not UTF-8 become U+FFFD. */
export function percentDecode(text: string): string {
  if (!text.includes("%")) return text;
  const bytes = Buffer.from(text, "utf8");
  const out = Buffer.alloc(bytes.length);
  let length = 0;
  for (let i = 0; i < bytes.length; i++) {
    const byte = bytes[i] ?? 0;
    if (byte === 0x25 && i + 2 < bytes.length) {
      const high = hex(bytes[i + 1] ?? 0);
      const low = hex(bytes[i + 2] ?? 0);
      if (high >= 0 && low >= 0) {
        out[length++] = (high << 4) | low;
        i += 2;
        continue;
      }
    }
    out[length++] = byte;
  }
  return out.toString("utf8", 0, length);
}

function decode(text: string): string {
  return percentDecode(text.includes("+") ? text.replaceAll("+", " ") : text);
}

function hex(code: number): number {
  if (code >= 0x30 && code <= 0x39) return code - 0x30;
  if (code >= 0x41 && code <= 0x46) return code - 0x37;
  if (code >= 0x61 && code <= 0x66) return code - 0x57;
  return -1;
}
