// Secrets by name and by shape. Logs, audit entries, spans and error data all pass through here, so that a
// password never depends on one caller's care. Public keys (`sshkeys`) stay readable: who was let in matters.

export const REDACTED = "[redacted]";

/** Values nested deeper than this are cut off: what is logged is for reading, not for keeping. */
const MAX_DEPTH = 8;

const EXACT = new Set([
  "pass",
  "passwd",
  "pwd",
  "key",
  "token",
  "ticket",
  "secret",
  "secrets",
  "authorization",
  "cookie",
  "cookies",
  "otp",
  "credentials",
  "keyring",
  "recovery",
  "tfachallenge",
]);

const PARTS = [
  "password",
  "passwd",
  "passphrase",
  "secret",
  "csrfpreventiontoken",
  "apitoken",
  "accesstoken",
  "refreshtoken",
  "bootstraptoken",
  "jointoken",
  "apikey",
  "privatekey",
  "clientkey",
  "encryptionkey",
  "authcookie",
  "setcookie",
  "proxyauthorization",
];

/** Whether a parameter, field or header of this name carries a secret. `tokenid` does not; `token` does. */
export function isSecretName(name: string): boolean {
  const plain = decoded(name)
    .toLowerCase()
    .replaceAll(/[^a-z]/g, "");
  if (EXACT.has(plain)) return true;
  return plain.endsWith("ticket") || plain.endsWith("token") || PARTS.some((part) => plain.includes(part));
}

export interface RedactOptions {
  /** Further secret names of this call, as written ("value" of a TFA entry). */
  readonly also?: ReadonlySet<string>;
}

/** A copy fit for a log line: secrets replaced, errors opened, cycles and depth cut. */
export function redact(value: unknown, options: RedactOptions = {}): unknown {
  return copy(value, options.also, 0, []);
}

const PEM_KEY = /-----BEGIN[^-]{0,40}PRIVATE(?: |\+|%20)KEY-----[\s\S]*?(?:-----END[^-]{0,40}KEY-----|$)/g;
const ASSIGNMENT = /([A-Za-z][\w.%-]{0,100})=("[^"]*"|[^&\s,;"'<>]+)/g;
const JSON_MEMBER = /"([^"\\]{1,100})"(\s*:\s*)"(?:[^"\\]|\\.)*"/g;
const HEADER = /\b((?:proxy-)?authorization|(?:set-)?cookie|csrfpreventiontoken)(\s*:\s*)[^\r\n]+/gi;
const BEARER = /\b(Bearer|Basic)\s+[\w.~+/=-]{8,}/g;
const TICKET = /\bPVE[A-Z]*:(?:[^\s:]+:){0,2}[0-9A-F]{8}::[\w+/=%-]+/g;
const URL_PASSWORD = /(:\/\/[^\s/:@]+:)[^\s/@]+@/g;
const QEMU_SECRET = /^(secret,.*\bdata=)[^,]+/;

/** The same for free text: messages, URLs with queries, headers, property strings, JSON inside strings. */
export function redactText(text: string): string {
  // Most lines hold none of the characters a secret needs beside it; they leave here.
  if (!/[=:]|-----|Bearer|Basic/.test(text)) return text;
  return text
    .replaceAll(PEM_KEY, REDACTED)
    .replaceAll(HEADER, (_all, name: string, colon: string) => `${name}${colon}${REDACTED}`)
    .replaceAll(TICKET, REDACTED)
    .replaceAll(BEARER, (_all, scheme: string) => `${scheme} ${REDACTED}`)
    .replaceAll(URL_PASSWORD, (_all, before: string) => `${before}${REDACTED}@`)
    .replaceAll(JSON_MEMBER, (all: string, name: string, colon: string) =>
      isSecretName(name) ? `"${name}"${colon}"${REDACTED}"` : all,
    )
    .replace(QEMU_SECRET, (_all, before: string) => `${before}${REDACTED}`)
    .replaceAll(ASSIGNMENT, (all: string, name: string) =>
      isSecretName(name) ? `${name}=${REDACTED}` : all,
    );
}

/** A command line fit for a log: `--password x` and `--password=x` lose their value. */
export function redactArgs(args: readonly string[]): string[] {
  return args.map((arg, index) => {
    const before = args[index - 1];
    const valueOfSecret =
      before !== undefined && /^--?[A-Za-z]/.test(before) && !before.includes("=") && isSecretName(before);
    return valueOfSecret && !/^--?[A-Za-z]/.test(arg) ? REDACTED : redactText(arg);
  });
}

function decoded(name: string): string {
  return name.replaceAll(/%([0-9A-Fa-f]{2})/g, (_all, hex: string) =>
    String.fromCharCode(Number.parseInt(hex, 16)),
  );
}

function copy(
  value: unknown,
  also: ReadonlySet<string> | undefined,
  depth: number,
  above: readonly object[],
): unknown {
  if (typeof value === "string") return redactText(value);
  if (typeof value === "bigint") return value.toString();
  if (typeof value === "function" || typeof value === "symbol") return undefined;
  if (typeof value !== "object" || value === null) return value;
  if (above.includes(value)) return "[circular]";
  if (depth >= MAX_DEPTH) return "[deep]";
  const inside = [...above, value];
  if (value instanceof Error) return copyError(value, also, depth, inside);
  if (value instanceof Date) return Number.isNaN(value.getTime()) ? null : value.toISOString();
  if (value instanceof URL) return redactText(value.href);
  // Bytes are noise in a log and may be anything; their size is enough.
  if (ArrayBuffer.isView(value)) return `[${value.byteLength} bytes]`;
  if (Array.isArray(value)) return value.map((item) => copy(item, also, depth + 1, inside));
  const entries = value instanceof Map ? value.entries() : Object.entries(value);
  const out: Record<string, unknown> = {};
  for (const [rawName, item] of entries) {
    const name = String(rawName);
    const secret = isSecretName(name) || also?.has(name) === true;
    const shown = secret && hides(item) ? REDACTED : copy(item, also, depth + 1, inside);
    // defineProperty: a parameter may be called __proto__.
    Object.defineProperty(out, name, { value: shown, enumerable: true, configurable: true, writable: true });
  }
  return out;
}

/** `password: undefined` or `token: true` tell that something was given or not, never what. */
function hides(value: unknown): boolean {
  return value !== undefined && value !== null && typeof value !== "boolean" && value !== "";
}

function copyError(
  error: Error,
  also: ReadonlySet<string> | undefined,
  depth: number,
  inside: readonly object[],
): unknown {
  const { name: _name, message: _message, stack, cause, ...own } = error as Error & Record<string, unknown>;
  return {
    type: error.name,
    message: redactText(error.message),
    ...(copy(own, also, depth + 1, inside) as Record<string, unknown>),
    ...(typeof stack === "string" ? { stack: redactText(stack) } : {}),
    ...(cause === undefined ? {} : { cause: copy(cause, also, depth + 1, inside) }),
  };
}
