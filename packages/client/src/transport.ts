// How requests leave the process. The client above it knows HTTP, not sockets, so the same code runs in Node
// (node-transport.ts), in a browser (fetch-transport.ts) and in tests.

export type HttpVerb = "GET" | "POST" | "PUT" | "PATCH" | "DELETE";

/** A body that is not held in memory. It can be opened again, for a repeated request. */
export interface StreamBody {
  readonly length: number;
  open(): AsyncIterable<Uint8Array>;
}

export interface HttpRequest {
  readonly method: HttpVerb;
  /** Absolute path with query, percent-encoded: "/api2/json/version". */
  readonly path: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body?: string | StreamBody;
  readonly signal?: AbortSignal;
  /** Silence after which the request is given up; 0 = never (watches). */
  readonly timeoutMs?: number;
}

export interface HttpResponse {
  readonly status: number;
  /** The status line's text: PVE puts the error there. Empty over HTTP/2. */
  readonly reason: string;
  /** Names in lower case. */
  readonly headers: Readonly<Record<string, string>>;
  /** The body in pieces as they arrive; read it once, or call `text`. */
  readonly body: AsyncIterable<Uint8Array>;
  text(): Promise<string>;
}

export interface SocketRequest {
  /** Absolute path with query, percent-encoded. */
  readonly path: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly signal?: AbortSignal;
}

/** A websocket of binary messages. */
export interface MessageSocket {
  /** Ends when either side closes; throws when the connection breaks. */
  readonly messages: AsyncIterable<Uint8Array>;
  /** Resolves when there is room for more. */
  send(message: string | Uint8Array): Promise<void>;
  close(): void;
}

export interface Transport {
  /** "https://host:8006", for messages. */
  readonly origin: string;
  /** Resolves when the head of the answer is there, whatever its status; rejects with AppError otherwise. */
  send(request: HttpRequest): Promise<HttpResponse>;
  /** Opens a websocket; absent where the platform's own cannot carry headers. */
  openSocket?(request: SocketRequest): Promise<MessageSocket>;
  close(): void;
}

/** What the client needs of a clock; kit's Clock fits. */
export interface ClientClock {
  now(): number;
  sleep(ms: number, signal?: AbortSignal): Promise<void>;
}

export async function readText(body: AsyncIterable<Uint8Array>): Promise<string> {
  const decoder = new TextDecoder();
  let text = "";
  for await (const piece of body) text += decoder.decode(piece, { stream: true });
  return text + decoder.decode();
}
