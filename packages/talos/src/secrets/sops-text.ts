// Files of SOPS with age recipients: every value is encrypted under its place, the whole is sealed by a MAC.
import { createCipheriv, createDecipheriv, createHash, randomBytes } from "node:crypto";
import { AppError } from "@gpve/contracts/errors.ts";
import { sameBytes } from "@gpve/kit/same-bytes.ts";
import { parse, stringify } from "yaml";
import { type AgeIdentity, decryptAge, encryptAge } from "./age-text.ts";

type Tree = { [key: string]: Tree | Leaf | (Tree | Leaf)[] };
type Leaf = string | number | boolean | null;

const VALUE = /^ENC\[AES256_GCM,data:(.+),iv:(.+),tag:(.+),type:(.+)\]$/;
/** SOPS' own default for keys that stay readable. */
const UNENCRYPTED = "_unencrypted";
/** What SOPS puts before a MAC that covers encrypted values alone. */
const MAC_ONLY_ENCRYPTED = Buffer.from(
  "8a3fd2ad54ce66527b1034f3d147be0b0b975b3bf44f72c6fdadec8176f27d69",
  "hex",
);
const FORMAT_VERSION = "3.10.2";

export const isSopsText = (text: string): boolean =>
  /^sops:\s*$/m.test(text) && text.includes("ENC[AES256_GCM,");

export async function encryptSops(text: string, recipients: readonly string[], now: number): Promise<string> {
  const tree = parse(text) as Tree;
  const key = randomBytes(32);
  const hash = createHash("sha512");
  const encrypted = mapLeaves(tree, [], (leaf, path) => {
    hash.update(leafBytes(leaf));
    return path.some((part) => part.endsWith(UNENCRYPTED)) ? leaf : seal(leaf, key, path);
  });
  const lastmodified = `${new Date(now).toISOString().slice(0, 19)}Z`;
  const age = await Promise.all(
    recipients.map(async (recipient) => ({
      recipient,
      enc: await encryptAge(key, [recipient]),
    })),
  );
  const mac = sealText(hash.digest("hex").toUpperCase(), key, lastmodified, "str");
  return stringify(
    {
      ...(encrypted as Tree),
      sops: { age, lastmodified, mac, unencrypted_suffix: UNENCRYPTED, version: FORMAT_VERSION },
    },
    { lineWidth: 0 },
  );
}

interface SopsHeader {
  readonly age?: readonly { readonly recipient: string; readonly enc: string }[];
  readonly lastmodified?: string;
  readonly mac?: string;
  readonly unencrypted_suffix?: string;
  readonly mac_only_encrypted?: boolean;
}

/** The file's YAML without SOPS' own part; undefined: none of the keys opens it. */
export async function decryptSops(
  text: string,
  identities: readonly AgeIdentity[],
  what: string,
): Promise<string | undefined> {
  const { sops: header, ...tree } = readTree(text, what);
  if (header?.age === undefined || header.lastmodified === undefined || header.mac === undefined) {
    throw new AppError(
      "feature.unsupported",
      `${what} has no age recipients; other keys of SOPS are not read`,
      {
        data: { finding: "secrets-damaged" },
      },
    );
  }
  const key = await dataKey(header, identities, what);
  if (key === undefined) return undefined;
  const hash = createHash("sha512");
  if (header.mac_only_encrypted === true) hash.update(MAC_ONLY_ENCRYPTED);
  let plain: unknown;
  let expected: Buffer;
  try {
    plain = mapLeaves(tree, [], (leaf, path) => {
      const isSealed = typeof leaf === "string" && VALUE.test(leaf);
      const open = isSealed ? unseal(leaf, key, `${path.join(":")}:`) : leaf;
      if (isSealed || header.mac_only_encrypted !== true) hash.update(leafBytes(open));
      return open;
    });
    expected = Buffer.from(String(unseal(header.mac, key, header.lastmodified)));
  } catch (cause) {
    throw changed(what, cause);
  }
  const actual = Buffer.from(hash.digest("hex").toUpperCase());
  if (!sameBytes(actual, expected)) throw changed(what);
  return stringify(plain, { lineWidth: 0 });
}

function readTree(text: string, what: string): Tree & { sops?: SopsHeader } {
  try {
    return parse(text, { logLevel: "error" }) as Tree & { sops?: SopsHeader };
  } catch (cause) {
    throw changed(what, cause);
  }
}

async function dataKey(
  { age = [] }: SopsHeader,
  identities: readonly AgeIdentity[],
  what: string,
): Promise<Buffer | undefined> {
  const own = new Set(identities.map(({ recipient }) => recipient));
  for (const { recipient, enc } of age) {
    if (!own.has(recipient)) continue;
    const key = await decryptAge(enc, identities, what);
    if (key !== undefined) return key;
  }
  return undefined;
}

/** Items of a list have the list's own path. */
function mapLeaves(
  value: unknown,
  path: readonly string[],
  change: (leaf: Leaf, path: readonly string[]) => Leaf,
): unknown {
  if (Array.isArray(value)) return value.map((item: unknown) => mapLeaves(item, path, change));
  if (typeof value === "object" && value !== null) {
    const entries = Object.entries(value).map(([key, item]) => [
      key,
      mapLeaves(item, [...path, key], change),
    ]);
    return Object.fromEntries(entries) as unknown;
  }
  return value === null ? null : change(value as Leaf, path);
}

function leafBytes(leaf: Leaf): string {
  return typeof leaf === "boolean" ? (leaf ? "True" : "False") : String(leaf);
}

function seal(leaf: Leaf, key: Buffer, path: readonly string[]): string {
  const type = typeof leaf === "boolean" ? "bool" : typeof leaf === "string" ? "str" : numberType(leaf);
  return sealText(leafBytes(leaf), key, `${path.join(":")}:`, type);
}

function numberType(leaf: Leaf): string {
  return Number.isInteger(leaf) ? "int" : "float";
}

function sealText(text: string, key: Buffer, place: string, type: string): string {
  // SOPS leaves empty text as it is.
  if (text === "") return "";
  const iv = randomBytes(32);
  const cipher = createCipheriv("aes-256-gcm", key, iv);
  cipher.setAAD(Buffer.from(place));
  const data = Buffer.concat([cipher.update(text, "utf8"), cipher.final()]);
  const parts = [data, iv, cipher.getAuthTag()].map((bytes) => bytes.toString("base64"));
  return `ENC[AES256_GCM,data:${parts[0]},iv:${parts[1]},tag:${parts[2]},type:${type}]`;
}

function unseal(text: string, key: Buffer, place: string): Leaf {
  const [, data = "", iv = "", tag = "", type = ""] = VALUE.exec(text) ?? [];
  const decipher = createDecipheriv("aes-256-gcm", key, Buffer.from(iv, "base64"), { authTagLength: 16 });
  decipher.setAAD(Buffer.from(place));
  decipher.setAuthTag(Buffer.from(tag, "base64"));
  const plain = Buffer.concat([decipher.update(Buffer.from(data, "base64")), decipher.final()]).toString(
    "utf8",
  );
  if (type === "int" || type === "float") return Number(plain);
  return type === "bool" ? plain.toLowerCase() === "true" : plain;
}

function changed(what: string, cause?: unknown): AppError {
  return new AppError(
    "config.invalid",
    `${what} was changed without SOPS: its values and its seal do not match`,
    {
      cause,
      data: { finding: "secrets-damaged", next: "Take it from a backup, or edit it with sops." },
    },
  );
}
