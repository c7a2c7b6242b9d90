// One request with authentication, and one repeat when other credentials can help.
import { given } from "@gpve/contracts/given.ts";
import { AppError } from "@gpve/contracts/errors.ts";
import type { Authentication } from "./authentication.ts";
import { responseError } from "./response-error.ts";
import type { HttpResponse, HttpVerb, MessageSocket, StreamBody, Transport } from "./transport.ts";

export interface SendOptions {
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: string | StreamBody;
  readonly signal?: AbortSignal;
  readonly timeoutMs?: number;
}

export class Sender {
  readonly #transport: Transport;
  readonly #authentication: Authentication;

  constructor(deps: { transport: Transport; authentication: Authentication }) {
    this.#transport = deps.transport;
    this.#authentication = deps.authentication;
  }

  /** Resolves with a success answer; throws AppError for every other. */
  async send(method: HttpVerb, path: string, options: SendOptions = {}): Promise<HttpResponse> {
    const first = await this.#once(method, path, options);
    if (first.status < 400) return first;
    const refusal = await responseError(first, { method, path });
    // A refused request has done nothing, so it may be repeated. Logins never pass here.
    if (!(await this.#authentication.renewAfterRefusal(refusal))) throw refusal;
    const second = await this.#once(method, path, options);
    if (second.status < 400) return second;
    throw await responseError(second, { method, path });
  }

  /** A websocket, as whoever sends the requests: tickets for consoles are good for their own user only. */
  async openSocket(path: string, signal?: AbortSignal): Promise<MessageSocket> {
    const headers = await this.#authentication.headers(true);
    if (this.#transport.openSocket === undefined)
      throw new AppError("feature.unsupported", "this client cannot open consoles");
    return this.#transport.openSocket({ path, headers, ...given({ signal }) });
  }

  async #once(method: HttpVerb, path: string, options: SendOptions): Promise<HttpResponse> {
    const headers = await this.#authentication.headers(method !== "GET");
    const { headers: extra, ...rest } = options;
    return this.#transport.send({
      method,
      path,
      headers: { accept: "application/json", ...headers, ...extra },
      ...rest,
    });
  }
}
