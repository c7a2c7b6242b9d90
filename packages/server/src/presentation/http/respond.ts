// Writing answers as PVE's daemon does: text in the reason phrase, exact headers, connection closed on errors.
import { promisify } from "node:util";
import { deflate, gzip } from "node:zlib";
import type { IncomingMessage, ServerResponse } from "node:http";

const gzipAsync = promisify(gzip);
const deflateAsync = promisify(deflate);
const COMPRESS_FROM_BYTES = 1024;
const NOTHING = Buffer.alloc(0);
const ONE_WRITE_BYTES = 15 * 1024;
const LINGER_MS = 30_000;

export const JSON_TYPE = "application/json;charset=UTF-8";

export interface Answer {
  readonly status: number;
  readonly reason?: string;
  readonly contentType?: string;
  readonly body?: Buffer;
  readonly headers?: Readonly<Record<string, string>>;
  /** Ready-made compressed form of `body`, kept by a cache. */
  readonly gzipped?: Buffer;
}

/** One line that fits a status line; Node takes it as latin1, so UTF-8 bytes are passed one by one. */
export function reasonPhrase(text: string): string {
  if (text === "OK") return text;
  const line = text.split(/[\r\n]/, 1)[0]?.trim() ?? "";
  const safe = line.replaceAll(/\p{Cc}/gu, " ");
  return Buffer.from(safe.slice(0, 1024), "utf8").toString("latin1");
}

/** On reads while the store does not answer: how many seconds ago it last confirmed what this server knows. */
export const DATA_AGE_HEADER = "X-Gpve-Data-Age";

export function sayAge(method: string, res: ServerResponse, ageSeconds: number | undefined): void {
  if (ageSeconds !== undefined && method === "GET" && !res.headersSent)
    res.setHeader(DATA_AGE_HEADER, ageSeconds);
}

export async function respond(req: IncomingMessage, res: ServerResponse, answer: Answer): Promise<void> {
  if (res.destroyed || res.headersSent) return;
  let body = answer.body ?? NOTHING;
  const date = httpDate();
  const headers: Record<string, string | number> = {
    "Cache-Control": "max-age=0",
    Date: date,
    Expires: date,
    Pragma: "no-cache",
    Server: "pve-api-daemon/3.0",
    ...answer.headers,
  };
  if (answer.contentType !== undefined) headers["Content-Type"] = answer.contentType;
  if (body.length > COMPRESS_FROM_BYTES) {
    const coding = acceptedCoding(req);
    if (coding === "gzip") body = answer.gzipped ?? (await gzipAsync(body));
    else if (coding === "deflate") body = await deflateAsync(body);
    if (coding !== undefined) headers["Content-Encoding"] = coding;
  }
  headers["Content-Length"] = body.length;
  if (answer.status >= 400) headers["Connection"] = "close";
  if (res.destroyed) return;
  res.writeHead(answer.status, reasonPhrase(answer.reason ?? defaultReason(answer.status)), headers);
  // Never a UTF-8 string: Node would encode the status line with it. As latin1 every byte stays what it is, and a small
  // answer leaves in one write together with its head.
  if (answer.status >= 400 && isStillSending(req)) {
    if (body.length === 0) res.flushHeaders();
    else res.write(body.toString("latin1"), "latin1");
    linger(req, res);
  } else if (body.length <= ONE_WRITE_BYTES) res.end(body.toString("latin1"), "latin1");
  else res.end(body);
}

/** Less than this fits into the buffers between us. */
const MUCH_BYTES = 64 * 1024;

function isStillSending(req: IncomingMessage): boolean {
  return !req.complete && Number(req.headers["content-length"]) > MUCH_BYTES;
}

/** Whoever is still sending a body that is refused reads the answer after it: closing at once would take it away. */
function linger(req: IncomingMessage, res: ServerResponse): void {
  const end = (): void => {
    clearTimeout(timer);
    res.end();
  };
  const timer = setTimeout(end, LINGER_MS).unref();
  req.once("close", end).once("end", end).resume();
}

function acceptedCoding(req: IncomingMessage): "gzip" | "deflate" | undefined {
  const accept = req.headers["accept-encoding"];
  if (typeof accept !== "string") return undefined;
  if (/(?:^|[\s,])gzip(?!\s*;\s*q=0(?:\.0*)?(?:[\s,]|$))/i.test(accept)) return "gzip";
  if (/(?:^|[\s,])deflate(?!\s*;\s*q=0(?:\.0*)?(?:[\s,]|$))/i.test(accept)) return "deflate";
  return undefined;
}

let dateSecond = 0;
let dateText = "";

/** Formatting a date costs more than the rest of a cached answer; once a second is enough. */
function httpDate(): string {
  const second = Math.floor(Date.now() / 1000);
  if (second !== dateSecond) {
    dateSecond = second;
    dateText = new Date(second * 1000).toUTCString();
  }
  return dateText;
}

const reasons: Readonly<Record<number, string>> = {
  200: "OK",
  400: "Parameter verification failed.",
  401: "Authentication failed!",
  403: "Permission check failed",
  431: "Request Header Fields Too Large",
  500: "Internal Server Error",
  501: "Not Implemented",
  503: "Service Unavailable",
};

function defaultReason(status: number): string {
  return reasons[status] ?? "";
}
