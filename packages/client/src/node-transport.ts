// HTTPS by node:https. A server is trusted when its certificate chains to the given CA (or the system's). Where a
// fingerprint is pinned, the certificate with that SHA-256 is trusted and no other: what `./gpve up` prints is enough
// to connect, and no CA can undo the choice.
import type { ClientRequest, IncomingMessage } from "node:http";
import { type Agent, request as httpsRequest } from "node:https";
import { given } from "@gpve/contracts/given.ts";
import { AppError, isAppError } from "@gpve/contracts/errors.ts";
import { openWebSocket } from "./node-socket.ts";
import { normalFingerprint, PinningAgent } from "./pinning-agent.ts";
import {
  type HttpRequest,
  type HttpResponse,
  type MessageSocket,
  readText,
  type SocketRequest,
  type Transport,
} from "./transport.ts";

export interface NodeTransportOptions {
  /** "https://host:8006" */
  readonly url: string;
  /** PEM text of the CA to trust where no certificate is pinned. */
  readonly ca?: string;
  /** SHA-256 of the only certificate to trust, hex with or without colons. */
  readonly fingerprint?: string;
  readonly timeoutMs?: number;
}

const DEFAULT_TIMEOUT_MS = 60_000;

export class NodeTransport implements Transport {
  readonly origin: string;
  readonly #url: URL;
  readonly #timeoutMs: number;
  readonly #kept: Agent;
  readonly #fresh: Agent;

  constructor(options: NodeTransportOptions) {
    this.#url = parseUrl(options.url);
    this.origin = this.#url.origin;
    this.#timeoutMs = options.timeoutMs ?? DEFAULT_TIMEOUT_MS;
    const trust = { ca: options.ca, fingerprint: normalFingerprint(options.fingerprint) };
    this.#kept = new PinningAgent(trust, { keepAlive: true, maxSockets: 16, keepAliveMsecs: 10_000 });
    this.#fresh = new PinningAgent(trust, { keepAlive: false });
  }

  async send(request: HttpRequest): Promise<HttpResponse> {
    // The server closes kept connections after 100 requests or an error. A read may simply be repeated when it
    // met such a close; a write could then run twice, so writes without an idempotency key go on a new one.
    const repeatable = request.method === "GET" || request.headers["idempotency-key"] !== undefined;
    try {
      return await this.#once(request, repeatable ? this.#kept : this.#fresh);
    } catch (err) {
      if (!repeatable || !(err instanceof StaleConnection)) throw this.#explain(err, request);
    }
    try {
      return await this.#once(request, this.#fresh);
    } catch (err) {
      throw this.#explain(err, request);
    }
  }

  async openSocket(request: SocketRequest): Promise<MessageSocket> {
    try {
      const target = { url: new URL(request.path, this.#url), agent: this.#fresh };
      return await openWebSocket(target, request, this.#timeoutMs);
    } catch (err) {
      throw this.#explain(err, { method: "GET", ...request });
    }
  }

  close(): void {
    this.#kept.destroy();
    this.#fresh.destroy();
  }

  #once(request: HttpRequest, agent: Agent): Promise<HttpResponse> {
    const timeoutMs = request.timeoutMs ?? this.#timeoutMs;
    const body = typeof request.body === "string" ? Buffer.from(request.body, "utf8") : request.body;
    return new Promise((resolve, reject) => {
      const outgoing = httpsRequest({
        host: hostOf(this.#url),
        port: this.#url.port === "" ? 443 : Number(this.#url.port),
        method: request.method,
        path: request.path,
        agent,
        headers: {
          ...request.headers,
          host: this.#url.host,
          ...(body === undefined ? {} : { "content-length": String(body.length) }),
        },
        ...given({ signal: request.signal }),
        ...(timeoutMs > 0 ? { timeout: timeoutMs } : {}),
      });
      outgoing.once("timeout", () => {
        outgoing.destroy(
          new AppError("request.timeout", `no answer from ${this.origin} within ${timeoutMs / 1000} s`),
        );
      });
      outgoing.once("error", (err) => {
        const stale = outgoing.reusedSocket && errnoOf(err) === "ECONNRESET";
        reject(stale ? new StaleConnection() : err);
      });
      outgoing.once("response", (incoming) => resolve(nodeResponse(incoming)));
      if (body === undefined || Buffer.isBuffer(body)) outgoing.end(body);
      else {
        sendPieces(body.open(), outgoing).catch((err: unknown) => {
          outgoing.destroy(err instanceof Error ? err : new Error(String(err)));
        });
      }
    });
  }

  #explain(err: unknown, request: Pick<HttpRequest, "method" | "path" | "signal">): Error {
    if (isAppError(err)) return err;
    if (request.signal?.aborted === true) {
      return new AppError("operation.cancelled", `${request.method} ${request.path} was cancelled`, {
        cause: err,
      });
    }
    return new AppError("node.unavailable", `cannot reach ${this.origin}: ${reasonOf(err)}`, {
      cause: err,
      data: { url: this.origin, errno: errnoOf(err) },
    });
  }
}

class StaleConnection extends Error {}

function nodeResponse(incoming: IncomingMessage): HttpResponse {
  const headers: Record<string, string> = {};
  for (const [name, value] of Object.entries(incoming.headers)) {
    if (value !== undefined) headers[name] = Array.isArray(value) ? value.join(", ") : value;
  }
  const body = wrapBody(incoming);
  return {
    status: incoming.statusCode ?? 0,
    // Node hands the phrase over as latin1; servers send UTF-8.
    reason: Buffer.from(incoming.statusMessage ?? "", "latin1").toString("utf8"),
    headers,
    body,
    text: () => readText(body),
  };
}

async function* wrapBody(incoming: IncomingMessage): AsyncGenerator<Uint8Array> {
  try {
    yield* incoming as AsyncIterable<Uint8Array>;
  } catch (err) {
    if (isAppError(err)) throw err;
    throw new AppError("node.unavailable", `the answer broke off: ${reasonOf(err)}`, { cause: err });
  }
}

function parseUrl(text: string): URL {
  let url: URL;
  try {
    url = new URL(text);
  } catch (err) {
    throw new AppError("config.invalid", `"${text}" is not a URL; it should look like https://host:8006`, {
      cause: err,
    });
  }
  if (url.protocol !== "https:") {
    throw new AppError(
      "config.invalid",
      `"${text}" must start with https://: credentials never travel in clear`,
    );
  }
  return url;
}

function hostOf(url: URL): string {
  return url.hostname.replace(/^\[|\]$/g, "");
}

function errnoOf(err: unknown): string | undefined {
  return err instanceof Error && "code" in err && typeof err.code === "string" ? err.code : undefined;
}

const REASONS: Readonly<Record<string, string>> = {
  ECONNREFUSED: "connection refused",
  ECONNRESET: "the connection was closed",
  ENOTFOUND: "no such host",
  EAI_AGAIN: "the name cannot be resolved now",
  ETIMEDOUT: "no connection in time",
  EHOSTUNREACH: "no route to host",
  ENETUNREACH: "network unreachable",
};

function reasonOf(err: unknown): string {
  const known = REASONS[errnoOf(err) ?? ""];
  if (known !== undefined) return known;
  if (err instanceof AggregateError && err.errors.length > 0) return reasonOf(err.errors[0]);
  return err instanceof Error ? err.message : String(err);
}

/** No faster than the connection takes it. A connection that closes ends it; why, the request's own events tell. */
async function sendPieces(pieces: AsyncIterable<Uint8Array>, outgoing: ClientRequest): Promise<void> {
  for await (const piece of pieces) {
    if (outgoing.destroyed) return;
    if (outgoing.write(piece)) continue;
    await new Promise<void>((resolve) => {
      const go = (): void => {
        outgoing.off("drain", go).off("close", go);
        resolve();
      };
      outgoing.on("drain", go).on("close", go);
    });
  }
  outgoing.end();
}
