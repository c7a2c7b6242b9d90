// Fetches files by HTTP(S) for storages.
import { rm, statfs } from "node:fs/promises";
import { Agent as HttpAgent, request as httpRequest, type IncomingMessage } from "node:http";
import { Agent as HttpsAgent, request as httpsRequest } from "node:https";
import { dirname } from "node:path";
import { pipeline } from "node:stream/promises";
import { given } from "@gpve/contracts/given.ts";
import { AppError, messageOf } from "@gpve/contracts/errors.ts";
import { createPlainFile, sinkInto } from "@gpve/kit/held-file.ts";

export interface HttpFetchOptions {
  readonly verifyCertificates: boolean;
  readonly signal: AbortSignal;
}

const MAX_REDIRECTS = 10;
const IDLE_MS = 60_000;

/** Left to those who already use the storage. */
const RESERVE_BYTES = 256 * 1024 * 1024;
const LOOK_EVERY_BYTES = 16 * 1024 * 1024;

export class HttpFetcher {
  readonly #userAgent: string;
  readonly #proxy: () => string | undefined;
  readonly #freeBytes: (folder: string) => Promise<number>;

  /** `proxy`: the datacenter's `http_proxy`, through which everything goes; it may hold a password. */
  constructor(deps: {
    readonly userAgent: string;
    readonly proxy?: () => string | undefined;
    readonly freeBytes?: (folder: string) => Promise<number>;
  }) {
    this.#userAgent = deps.userAgent;
    this.#freeBytes = deps.freeBytes ?? freeBytesOf;
    this.#proxy = deps.proxy ?? (() => undefined);
  }

  /** Name, size and type of what a URL leads to, without fetching it. */
  async facts(
    url: string,
    options: HttpFetchOptions,
  ): Promise<{ filename?: string; size?: number; mimetype?: string }> {
    const response = await this.#follow("HEAD", url, options);
    response.destroy();
    const filename = fileNameOf(url, response.headers["content-disposition"]);
    const size = Number(response.headers["content-length"] ?? 0);
    const mimetype = response.headers["content-type"]?.split(";", 1)[0]?.trim();
    return {
      ...(filename === undefined || filename === "" ? {} : { filename }),
      ...(size > 0 ? { size } : {}),
      ...(mimetype === undefined || mimetype === "" ? {} : { mimetype }),
    };
  }

  /** Writes the body to a new file; returns its length. */
  async download(
    url: string,
    path: string,
    options: HttpFetchOptions & {
      readonly progress: (fraction: number) => void;
      readonly mostBytes?: number;
    },
  ): Promise<number> {
    const { mostBytes = Number.POSITIVE_INFINITY } = options;
    const response = await this.#follow("GET", url, options);
    const total = Number(response.headers["content-length"] ?? 0);
    const free = (): Promise<number> => this.#freeBytes(dirname(path));
    if (total > (await free())) {
      response.destroy();
      throw noSpace(`not enough space on the storage for ${total} bytes`);
    }
    let received = 0;
    let lookAgainAt = LOOK_EVERY_BYTES;
    // Nobody says how long some bodies are, and others write to the storage meanwhile.
    const isRoomLeft = async (): Promise<void> => {
      if (received < lookAgainAt) return;
      lookAgainAt = received + LOOK_EVERY_BYTES;
      if ((await free()) < RESERVE_BYTES)
        throw noSpace(`the storage is full after ${received} bytes of '${shown(url)}'`);
    };
    const meter = async function* (body: AsyncIterable<Buffer>): AsyncGenerator<Buffer> {
      for await (const chunk of body) {
        received += chunk.length;
        if (received > mostBytes)
          throw new AppError(
            "request.too_large",
            `'${shown(url)}' is too long: more than ${mostBytes} bytes`,
          );
        if (total > 0) options.progress(Math.min(1, received / total));
        await isRoomLeft();
        yield chunk;
      }
    };
    await rm(path, { force: true });
    const file = await createPlainFile(path, 0o600);
    try {
      await pipeline(response, meter, sinkInto(file), { signal: options.signal });
    } catch (err) {
      // The other side hung up: Node says no more than "aborted".
      if ((err as NodeJS.ErrnoException).code !== "ECONNRESET") throw err;
      const wanted = total > 0 ? ` of ${total}` : "";
      throw failed(`the download of '${shown(url)}' ended after ${received}${wanted} bytes`, err);
    } finally {
      await file.close();
    }
    if (total > 0 && received !== total) {
      throw failed(`the download of '${shown(url)}' ended after ${received} of ${total} bytes`);
    }
    return received;
  }

  async #follow(method: "GET" | "HEAD", start: string, options: HttpFetchOptions): Promise<IncomingMessage> {
    let url = new URL(start);
    for (let hop = 0; hop <= MAX_REDIRECTS; hop++) {
      const response = await this.#ask(method, url, options);
      const { statusCode = 0, statusMessage = "" } = response;
      const { location } = response.headers;
      if (statusCode >= 300 && statusCode < 400 && location !== undefined) {
        response.destroy();
        url = new URL(location, url);
        if (url.protocol !== "http:" && url.protocol !== "https:") {
          throw failed(`'${shown(start)}' leads to an address that is neither http nor https`);
        }
        continue;
      }
      if (statusCode === 200) return response;
      response.destroy();
      throw new AppError("operation.failed", `invalid server response: '${statusCode} ${statusMessage}'`, {
        pveStatus: 500,
        data: { status: statusCode },
      });
    }
    throw failed(`'${shown(start)}' leads to too many other addresses`);
  }

  #ask(method: string, url: URL, options: HttpFetchOptions): Promise<IncomingMessage> {
    return new Promise((resolve, reject) => {
      const settings = {
        method,
        headers: { "user-agent": this.#userAgent, accept: "*/*" },
        signal: options.signal,
      };
      const proxy = this.#proxy();
      const proxyEnv = proxy === undefined ? {} : { HTTP_PROXY: proxy, HTTPS_PROXY: proxy };
      const rejectUnauthorized = options.verifyCertificates;
      const request =
        url.protocol === "https:"
          ? httpsRequest(url, { ...settings, rejectUnauthorized, agent: new HttpsAgent({ proxyEnv }) })
          : httpRequest(url, { ...settings, agent: new HttpAgent({ proxyEnv }) });
      request.setTimeout(IDLE_MS, () => request.destroy(failed(`'${shown(url.href)}' does not answer`)));
      request.on("response", resolve);
      request.on("error", (err) =>
        reject(
          err instanceof AppError ? err : failed(`cannot fetch '${shown(url.href)}': ${messageOf(err)}`, err),
        ),
      );
      request.end();
    });
  }
}

export function fileNameOf(url: string, disposition: string | undefined): string | undefined {
  const stated =
    /filename="([^"]*)"/.exec(disposition ?? "")?.[1] ?? /filename=([^;]*)/.exec(disposition ?? "")?.[1];
  return stated ?? /^[^?]+\/([^?/]*)(?:\?.*)?$/.exec(url)?.[1];
}

function failed(message: string, cause?: unknown): AppError {
  return new AppError("operation.failed", message, {
    pveStatus: 500,
    ...given({ cause }),
  });
}

/** Queries and passwords may be secret. */
function shown(url: string): string {
  return url.replace(/\?.*$/, "").replace(/^(https?:\/\/)[^/@]*@/, "$1");
}

async function freeBytesOf(folder: string): Promise<number> {
  const { bavail, bsize } = await statfs(folder);
  return bavail * bsize;
}

function noSpace(message: string): AppError {
  return new AppError("capacity.exceeded", message, { pveStatus: 500 });
}
