// A scripted API: answers by method and path, remembers what it was asked. FakeTransport puts it behind the
// client directly, FakeHttpsServer behind a real TLS socket.
import { given } from "@gpve/contracts/given.ts";
import { AppError } from "@gpve/contracts/errors.ts";
import { FakeSocket } from "./fake-socket.ts";
import {
  readText,
  type HttpRequest,
  type HttpResponse,
  type MessageSocket,
  type SocketRequest,
  type StreamBody,
  type Transport,
} from "../transport.ts";

export interface FakeRequest {
  readonly method: string;
  /** Without the query, percent-decoded. */
  readonly path: string;
  readonly query: URLSearchParams;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
  readonly form: URLSearchParams;
}

export interface FakeReply {
  readonly status?: number;
  readonly reason?: string;
  readonly headers?: Readonly<Record<string, string>>;
  /** Objects are sent as JSON. */
  readonly body?: unknown;
  /** Pieces sent one after the other instead of `body`. */
  readonly stream?: AsyncIterable<string>;
}

export type FakeHandler = (request: FakeRequest) => FakeReply | Promise<FakeReply>;

export class FakeApi {
  readonly requests: FakeRequest[] = [];
  readonly #handlers = new Map<string, FakeHandler>();
  readonly sockets: FakeSocket[] = [];
  #onMessage: ((message: Buffer, socket: FakeSocket) => void) | undefined;

  /** `GET /api2/json/version`; the last registration wins. */
  on(route: string, handler: FakeHandler | FakeReply): this {
    this.#handlers.set(route, typeof handler === "function" ? handler : () => handler);
    return this;
  }

  /** A PVE success below /api2/json: `pve("GET /version", {...})`. */
  pve(route: string, data: unknown, total?: number): this {
    const [verb, path] = route.split(" ");
    return this.on(`${verb} /api2/json${path}`, { body: total === undefined ? { data } : { data, total } });
  }

  /** A PVE refusal below /api2/json. */
  pveError(route: string, status: number, message: string, errors?: Record<string, string>): this {
    const [verb, path] = route.split(" ");
    return this.on(`${verb} /api2/json${path}`, {
      status,
      reason: message.split("\n")[0] ?? "",
      body: { data: null, message: `${message}\n`, ...given({ errors }) },
    });
  }

  /** Websockets can be opened, and are answered like this. */
  onSocket(handler: (message: Buffer, socket: FakeSocket) => void): this {
    this.#onMessage = handler;
    return this;
  }

  openSocket(request: SocketRequest): FakeSocket {
    this.requests.push(fakeRequest("GET", request.path, request.headers, ""));
    if (this.#onMessage === undefined) throw new AppError("auth.failed", "permission denied");
    const socket = new FakeSocket(this.#onMessage);
    this.sockets.push(socket);
    return socket;
  }

  async answer(
    request: FakeRequest,
  ): Promise<Required<Omit<FakeReply, "body" | "stream">> & { pieces: AsyncIterable<string> }> {
    this.requests.push(request);
    const handler = this.#handlers.get(`${request.method} ${request.path}`);
    const missing = `Method '${request.method} ${request.path.replace(/^\/api2\/json/, "")}' not implemented`;
    const reply: FakeReply =
      handler === undefined ? { status: 501, reason: missing } : await handler(request);
    const { body } = reply;
    const text = body === undefined ? "" : typeof body === "string" ? body : JSON.stringify(body);
    return {
      status: reply.status ?? 200,
      reason: reply.reason ?? "OK",
      headers: { "content-type": "application/json;charset=UTF-8", ...reply.headers },
      pieces: reply.stream ?? one(text),
    };
  }

  /** The last request to a route, for assertions. */
  last(route: string): FakeRequest {
    const found = this.requests.findLast((request) => `${request.method} ${request.path}` === route);
    if (found === undefined) throw new Error(`nobody asked ${route}`);
    return found;
  }
}

export class FakeTransport implements Transport {
  readonly origin = "https://fake:8006";
  closed = false;
  readonly #api: FakeApi;

  constructor(api: FakeApi) {
    this.#api = api;
  }

  async send(request: HttpRequest): Promise<HttpResponse> {
    request.signal?.throwIfAborted();
    const reply = await this.#api.answer(
      fakeRequest(request.method, request.path, request.headers, await bodyText(request.body)),
    );
    const body = encode(reply.pieces);
    return {
      status: reply.status,
      reason: reply.reason,
      headers: reply.headers,
      body,
      text: () => readText(body),
    };
  }

  async openSocket(request: SocketRequest): Promise<MessageSocket> {
    return this.#api.openSocket(request);
  }

  close(): void {
    this.closed = true;
  }
}

async function bodyText(body: string | StreamBody | undefined): Promise<string> {
  return body === undefined || typeof body === "string" ? (body ?? "") : readText(body.open());
}

export function fakeRequest(
  method: string,
  target: string,
  headers: Readonly<Record<string, string>>,
  body: string,
): FakeRequest {
  const [path = "", query = ""] = target.split("?");
  return {
    method,
    path: decodeURIComponent(path),
    query: new URLSearchParams(query),
    headers,
    body,
    form: new URLSearchParams(body),
  };
}

async function* one(text: string): AsyncGenerator<string> {
  yield text;
}

async function* encode(pieces: AsyncIterable<string>): AsyncGenerator<Uint8Array> {
  const encoder = new TextEncoder();
  for await (const piece of pieces) yield encoder.encode(piece);
}
