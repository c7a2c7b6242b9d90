import type { Argon2Parameters } from "node:crypto";
import { argon2, randomBytes, timingSafeEqual } from "node:crypto";
import type { PasswordHasher } from "@gpve/domain/access/ports.ts";

/** OWASP's second choice for argon2id: small enough that a burst of logins does not exhaust memory. */
const DEFAULTS = { memoryKiB: 19_456, passes: 2, parallelism: 1 };
const SALT_BYTES = 16;
const TAG_BYTES = 32;
/** A stored hash may not ask for more than this: records can come from a restored backup. */
const MAX = { memoryKiB: 1_048_576, passes: 16, parallelism: 16 };

export interface Argon2Cost {
  readonly memoryKiB: number;
  readonly passes: number;
  readonly parallelism: number;
}

/** argon2id in the usual `$argon2id$v=19$m=…,t=…,p=…$salt$hash` form. */
export function createPasswordHasher(cost: Argon2Cost = DEFAULTS): PasswordHasher {
  return {
    hash: async (password) => {
      const salt = randomBytes(SALT_BYTES);
      const tag = await derive(password, salt, cost, TAG_BYTES);
      const { memoryKiB, passes, parallelism } = cost;
      return `$argon2id$v=19$m=${memoryKiB},t=${passes},p=${parallelism}$${plain64(salt)}$${plain64(tag)}`;
    },
    verify: async (password, hash) => {
      const stored = parse(hash);
      if (stored === undefined) return false;
      const tag = await derive(password, stored.salt, stored.cost, stored.tag.length);
      return timingSafeEqual(tag, stored.tag);
    },
  };
}

function derive(password: string, salt: Buffer, cost: Argon2Cost, bytes: number): Promise<Buffer> {
  const parameters: Argon2Parameters = {
    message: password,
    nonce: salt,
    memory: cost.memoryKiB,
    passes: cost.passes,
    parallelism: cost.parallelism,
    tagLength: bytes,
  };
  return new Promise((resolve, reject) => {
    argon2("argon2id", parameters, (err, tag) => (err === null ? resolve(tag) : reject(err)));
  });
}

const PHC =
  /^\$argon2id\$v=19\$m=(\d{1,9}),t=(\d{1,4}),p=(\d{1,4})\$([A-Za-z0-9+/]{11,})\$([A-Za-z0-9+/]{16,})$/;

function parse(hash: string): { cost: Argon2Cost; salt: Buffer; tag: Buffer } | undefined {
  const match = PHC.exec(hash);
  if (match === null) return undefined;
  const [, memory, passes, parallelism, salt = "", tag = ""] = match;
  const cost = { memoryKiB: Number(memory), passes: Number(passes), parallelism: Number(parallelism) };
  const sane =
    cost.parallelism >= 1 &&
    cost.passes >= 1 &&
    cost.memoryKiB >= 8 * cost.parallelism &&
    cost.memoryKiB <= MAX.memoryKiB &&
    cost.passes <= MAX.passes &&
    cost.parallelism <= MAX.parallelism;
  return sane ? { cost, salt: Buffer.from(salt, "base64"), tag: Buffer.from(tag, "base64") } : undefined;
}

function plain64(bytes: Buffer): string {
  return bytes.toString("base64").replaceAll("=", "");
}
