// SHA-256 of what lies at an address, in hex: read once, and nothing of it kept.
import { createHash } from "node:crypto";
import { Readable } from "node:stream";
import { AppError, messageOf } from "@gpve/contracts/errors.ts";
import { given } from "@gpve/contracts/given.ts";
import type { Clock } from "@gpve/kit/clock.ts";

export interface UrlDigestRequest {
  readonly url: string;
  /** How far it is. */
  readonly tell: (note: string) => void;
  readonly signal?: AbortSignal | undefined;
}

export type UrlDigest = (request: UrlDigestRequest) => Promise<string>;

export interface UrlDigestDeps {
  readonly fetch: (
    url: string,
    init: { readonly headers: Readonly<Record<string, string>>; readonly signal?: AbortSignal },
  ) => Promise<Response>;
  readonly clock: Pick<Clock, "monotonic">;
}

const TELL_MS = 10_000;
const MIB = 1024 ** 2;

/** Whoever asks for what is being read waits for it. */
export function urlDigests(deps: UrlDigestDeps): UrlDigest {
  const running = new Map<string, Promise<string>>();
  return (request) => {
    const known = running.get(request.url);
    if (known !== undefined) return known;
    const work = digestOf(request, deps).finally(() => running.delete(request.url));
    running.set(request.url, work);
    return work;
  };
}

async function digestOf(
  { url, tell, signal }: UrlDigestRequest,
  { fetch, clock }: UrlDigestDeps,
): Promise<string> {
  // As it lies there: platforms fetch without compression on the way.
  const init = { headers: { "accept-encoding": "identity" }, ...given({ signal }) };
  const answer = await fetch(url, init).catch((err: unknown) => {
    throw unread(url, causeOf(err), err);
  });
  const encoding = answer.headers.get("content-encoding") ?? "identity";
  if (answer.status !== 200 || answer.body === null || encoding !== "identity") {
    await answer.body?.cancel();
    throw unread(url, answer.status === 200 ? `it comes as ${encoding}` : `status ${answer.status}`);
  }
  const length = answer.headers.get("content-length");
  const hash = createHash("sha256");
  let bytes = 0;
  let told = clock.monotonic();
  try {
    for await (const piece of Readable.fromWeb(answer.body)) {
      hash.update(piece as Uint8Array);
      bytes += (piece as Uint8Array).length;
      if (clock.monotonic() - told < TELL_MS) continue;
      told = clock.monotonic();
      const all = length === null ? "" : ` of ${Math.ceil(Number(length) / MIB)}`;
      tell(`read ${Math.floor(bytes / MIB)}${all} MiB of it here, for its SHA-256`);
    }
  } catch (err) {
    throw unread(url, `it broke off after ${bytes} bytes: ${causeOf(err)}`, err);
  }
  if (length !== null && Number(length) !== bytes)
    throw unread(url, `it broke off after ${bytes} of ${length} bytes`);
  return hash.digest("hex");
}

const unread = (url: string, why: string, cause?: unknown): AppError =>
  new AppError("node.unavailable", `${url} cannot be read from here: ${why}`, { cause });

/** "fetch failed" says nothing; what it failed of does. */
function causeOf(err: unknown): string {
  const { cause } = err as { readonly cause?: unknown };
  return messageOf(cause instanceof Error && cause.message !== "" ? cause : err);
}
