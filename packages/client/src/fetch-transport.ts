// The browser's transport: the page's own origin, the browser's own trust.
import { given } from "@gpve/contracts/given.ts";
import { AppError } from "@gpve/contracts/errors.ts";
import { type HttpRequest, type HttpResponse, readText, type Transport } from "./transport.ts";

export type Fetch = (input: string, init: RequestInit) => Promise<Response>;

export class FetchTransport implements Transport {
  readonly origin: string;
  readonly #fetch: Fetch;

  constructor(deps: { origin: string; fetch: Fetch }) {
    this.origin = deps.origin;
    this.#fetch = deps.fetch;
  }

  async send(request: HttpRequest): Promise<HttpResponse> {
    // A browser sets the cookie itself and refuses this header.
    const { cookie: _cookie, ...headers } = request.headers;
    const timeout = (request.timeoutMs ?? 0) > 0 ? [AbortSignal.timeout(request.timeoutMs ?? 0)] : [];
    const signals = [...(request.signal === undefined ? [] : [request.signal]), ...timeout];
    const { body: sent } = request;
    if (sent !== undefined && typeof sent !== "string") {
      throw new AppError("feature.unsupported", "this client cannot stream request bodies");
    }
    let response: Response;
    try {
      response = await this.#fetch(`${this.origin}${request.path}`, {
        method: request.method,
        headers,
        ...given({ body: sent }),
        ...(signals.length === 0 ? {} : { signal: AbortSignal.any(signals) }),
      });
    } catch (err) {
      throw this.#explain(err, request, timeout[0]?.aborted === true);
    }
    const body = pieces(response);
    return {
      status: response.status,
      reason: response.statusText,
      headers: Object.fromEntries(response.headers),
      body,
      text: () => readText(body),
    };
  }

  close(): void {
    // Connections belong to the browser.
  }

  #explain(err: unknown, request: HttpRequest, timedOut: boolean): AppError {
    if (timedOut)
      return new AppError("request.timeout", `no answer from ${this.origin} in time`, { cause: err });
    if (request.signal?.aborted === true) {
      return new AppError("operation.cancelled", `${request.method} ${request.path} was cancelled`, {
        cause: err,
      });
    }
    return new AppError("node.unavailable", `cannot reach ${this.origin}`, { cause: err });
  }
}

async function* pieces(response: Response): AsyncGenerator<Uint8Array> {
  if (response.body === null) return;
  const reader = response.body.getReader();
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      yield value;
    }
  } finally {
    await reader.cancel();
  }
}
