// As much of S3 as snapshots need: put, get, list, delete. Buckets are named in the path, which every server understands.
import { AppError, messageOf } from "@gpve/contracts/errors.ts";
import { type S3Keys, signRequest } from "./sign-request.ts";

export interface S3Place {
  readonly endpoint: string;
  readonly region: string;
  readonly bucket: string;
}

type S3Fetch = (
  url: URL,
  init: {
    readonly method: string;
    readonly headers: Readonly<Record<string, string>>;
    readonly body?: Uint8Array<ArrayBuffer>;
    readonly signal: AbortSignal;
  },
) => Promise<Pick<Response, "status" | "arrayBuffer">>;

export interface S3Deps {
  readonly fetch: S3Fetch;
  readonly now: () => number;
}

/** A snapshot is some hundred megabytes at most. */
const TIMEOUT_MS = 600_000;

export class S3Bucket {
  readonly #place: S3Place;
  readonly #keys: S3Keys;
  readonly #deps: S3Deps;

  constructor(place: S3Place, keys: S3Keys, deps: S3Deps) {
    this.#place = place;
    this.#keys = keys;
    this.#deps = deps;
  }

  async put(key: string, bytes: Uint8Array): Promise<void> {
    await this.#send("PUT", key, {}, Uint8Array.from(bytes));
  }

  async get(key: string): Promise<Buffer> {
    return this.#send("GET", key);
  }

  async delete(key: string): Promise<void> {
    await this.#send("DELETE", key);
  }

  /** Keys that begin so, in their order. */
  async list(prefix: string): Promise<readonly string[]> {
    const keys: string[] = [];
    let token: string | undefined;
    do {
      const query = {
        "list-type": "2",
        prefix,
        ...(token === undefined ? {} : { "continuation-token": token }),
      };
      const text = (await this.#send("GET", "", query)).toString("utf8");
      keys.push(...[...text.matchAll(/<Key>([^<]*)<\/Key>/g)].map(([, key = ""]) => plain(key)));
      token = /<NextContinuationToken>([^<]+)</.exec(text)?.[1];
      if (token !== undefined) token = plain(token);
    } while (token !== undefined);
    return keys.toSorted((a, b) => (a < b ? -1 : 1));
  }

  async #send(
    method: string,
    key: string,
    query: Readonly<Record<string, string>> = {},
    body: Uint8Array<ArrayBuffer> = new Uint8Array(),
  ): Promise<Buffer> {
    const { endpoint, region, bucket } = this.#place;
    const url = new URL(`${endpoint.replace(/\/+$/, "")}/${bucket}${key === "" ? "" : `/${key}`}`);
    for (const [name, value] of Object.entries(query)) url.searchParams.set(name, value);
    const headers = signRequest({ method, url, region, body, now: this.#deps.now() }, this.#keys);
    const what = `${method} s3://${bucket}/${key}`;
    const signal = AbortSignal.timeout(TIMEOUT_MS);
    const init = { method, headers, signal, ...(method === "PUT" ? { body } : {}) };
    const answer = await this.#deps.fetch(url, init).catch((cause: unknown) => {
      throw new AppError("node.unavailable", `${what} at ${endpoint}: ${reasonOf(cause)}`, {
        cause,
        data: FINDING,
      });
    });
    const bytes = Buffer.from(await answer.arrayBuffer());
    if (answer.status < 300) return bytes;
    const text = bytes.toString("utf8");
    const code = /<Code>([^<]*)</.exec(text)?.[1] ?? `status ${answer.status}`;
    const why = /<Message>([^<]*)</.exec(text)?.[1];
    const kind =
      answer.status === 404
        ? "object.not_found"
        : answer.status === 403
          ? "access.denied"
          : "operation.failed";
    throw new AppError(
      kind,
      `${what} at ${endpoint}: ${plain(why === undefined ? code : `${code}: ${why}`)}`,
      {
        data: FINDING,
      },
    );
  }
}

const FINDING = { finding: "snapshot-target" } as const;

/** fetch says "fetch failed", and why in its cause. */
function reasonOf(err: unknown): string {
  const cause = err instanceof Error ? err.cause : undefined;
  return cause === undefined ? messageOf(err) : messageOf(cause);
}

const signs: Readonly<Record<string, string>> = { amp: "&", lt: "<", gt: ">", quot: '"', apos: "'" };
const plain = (text: string): string =>
  text.replaceAll(/&(amp|lt|gt|quot|apos);/g, (_whole, name: string) => signs[name] ?? "");
