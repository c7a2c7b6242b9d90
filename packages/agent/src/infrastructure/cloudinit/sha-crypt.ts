// SHA-crypt (https://www.akkadia.org/drepper/SHA-crypt.txt), which Node does not have: how Linux keeps passwords.
import { createHash, randomBytes } from "node:crypto";

const ALPHABET = "./0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
const DEFAULT_ROUNDS = 5_000;
const MOST_SALT = 16;

const kinds = {
  sha256: { prefix: "$5$", size: 32 },
  sha512: { prefix: "$6$", size: 64 },
} as const;

export type ShaCryptKind = keyof typeof kinds;

/** As PVE stores cloud-init passwords: `$5$<salt>$<hash>`. Never blocks for more than some milliseconds. */
export function hashCloudinitPassword(password: string, salt = randomSalt()): string {
  return shaCrypt("sha256", password, salt);
}

export function shaCrypt(
  kind: ShaCryptKind,
  password: string,
  saltText: string,
  rounds = DEFAULT_ROUNDS,
): string {
  const { prefix, size } = kinds[kind];
  const hash = (...parts: Uint8Array[]): Buffer => {
    const state = createHash(kind);
    for (const part of parts) state.update(part);
    return state.digest();
  };
  const key = Buffer.from(password);
  const salt = Buffer.from(saltText).subarray(0, MOST_SALT);
  const alternate = hash(key, salt, key);
  const parts: Uint8Array[] = [key, salt, stretched(alternate, key.length)];
  for (let bits = key.length; bits > 0; bits >>= 1) parts.push((bits & 1) === 1 ? alternate : key);
  let digest = hash(...parts);
  const keys = stretched(hash(...repeated(key, key.length)), key.length);
  const salts = stretched(hash(...repeated(salt, 16 + (digest[0] ?? 0))), salt.length);
  for (let round = 0; round < rounds; round++) {
    const odd = round % 2 === 1;
    digest = hash(
      odd ? keys : digest,
      round % 3 === 0 ? new Uint8Array() : salts,
      round % 7 === 0 ? new Uint8Array() : keys,
      odd ? digest : keys,
    );
  }
  const effort = rounds === DEFAULT_ROUNDS ? "" : `rounds=${rounds}$`;
  return `${prefix}${effort}${salt.toString()}$${encoded(digest, size)}`;
}

/** Twelve characters of salt: 72 bits. */
export function randomSalt(): string {
  return [...randomBytes(12)].map((byte) => ALPHABET[byte & 63]).join("");
}

function repeated(part: Uint8Array, times: number): Uint8Array[] {
  return Array.from({ length: times }, () => part);
}

function stretched(block: Buffer, length: number): Buffer {
  const copies = Math.ceil(length / block.length);
  return Buffer.concat(repeated(block, copies)).subarray(0, length);
}

/** crypt's own base 64: three bytes at a time, a third of the hash apart and rotating. */
function encoded(digest: Buffer, size: number): string {
  const third = Math.floor(size / 3);
  const step = size === 32 ? 21 : 22;
  let [a, b, c] = [0, third, 2 * third];
  let text = "";
  const take = (value: number, count: number): void => {
    for (let rest = value, left = count; left > 0; left--, rest >>= 6) text += ALPHABET[rest & 63];
  };
  for (let group = 0; group < third; group++) {
    take(((digest[a] ?? 0) << 16) | ((digest[b] ?? 0) << 8) | (digest[c] ?? 0), 4);
    [a, b, c] = [(a + step) % (3 * third), (b + step) % (3 * third), (c + step) % (3 * third)];
  }
  if (size === 32) take(((digest[31] ?? 0) << 8) | (digest[30] ?? 0), 3);
  else take(digest[63] ?? 0, 2);
  return text;
}
