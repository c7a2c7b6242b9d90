// A small HTTP/1.1 loader on raw TLS sockets: it costs less than the servers it measures, follows `Connection: close`
// with a new connection as PVE clients do, and counts a request from the moment it was due (no coordinated omission).
import { connect, type TLSSocket } from "node:tls";

export interface Target {
  readonly host: string;
  readonly port: number;
  readonly ca: Buffer;
  readonly path: () => string;
  readonly headers: Readonly<Record<string, string>>;
}

export interface LoadResult {
  readonly requests: number;
  readonly perSecond: number;
  readonly p50Ms: number;
  readonly p99Ms: number;
  readonly bytes: number;
  readonly failures: number;
}

export interface LoadOptions {
  readonly connections: number;
  readonly seconds: number;
  /** Requests per second over all connections; as fast as possible when absent. */
  readonly rate?: number;
}

const HEAD_END = Buffer.from("\r\n\r\n");

/** One connection that answers one request at a time and comes back after the server closed it. */
class Line {
  readonly #target: Target;
  #socket: TLSSocket | undefined;
  #session: Buffer | undefined;
  bytes = 0;
  failures = 0;

  constructor(target: Target) {
    this.#target = target;
  }

  async request(): Promise<void> {
    const socket = this.#socket ?? (await this.#open());
    const { host, headers, path } = this.#target;
    const lines = Object.entries(headers).map(([name, value]) => `${name}: ${value}\r\n`);
    await new Promise<void>((done, fail) => {
      let head: Buffer = Buffer.alloc(0);
      let missing = -1;
      let close = false;
      const finish = (err?: Error): void => {
        socket.off("data", onData).off("error", finish).off("close", onClose);
        if (close || err !== undefined) {
          this.#socket = undefined;
          socket.on("error", () => socket.destroy());
          socket.end();
        }
        if (err === undefined) done();
        else fail(err);
      };
      const onClose = (): void => finish(new Error("the server closed the connection without an answer"));
      const onData = (chunk: Buffer): void => {
        this.bytes += chunk.length;
        if (missing < 0) {
          head = head.length === 0 ? chunk : Buffer.concat([head, chunk]);
          const end = head.indexOf(HEAD_END);
          if (end < 0) return;
          const text = head.toString("latin1", 0, end).toLowerCase();
          if (!text.startsWith("http/1.1 200 ")) this.failures++;
          close = text.includes("\r\nconnection: close");
          missing = Number(/\r\ncontent-length: (\d+)/.exec(text)?.[1] ?? 0) - (head.length - end - 4);
        } else missing -= chunk.length;
        if (missing <= 0) finish();
      };
      socket.on("data", onData).on("error", finish).on("close", onClose);
      socket.write(`GET ${path()} HTTP/1.1\r\nHost: ${host}\r\n${lines.join("")}\r\n`);
    });
  }

  close(): void {
    this.#socket?.destroy();
  }

  #open(): Promise<TLSSocket> {
    const { host, port, ca } = this.#target;
    const session = this.#session === undefined ? {} : { session: this.#session };
    return new Promise((done, fail) => {
      const socket = connect({ host, port, ca, ALPNProtocols: ["http/1.1"], ...session });
      socket.setNoDelay(true);
      socket.on("session", (ticket) => (this.#session = ticket));
      socket.once("error", fail);
      socket.once("secureConnect", () => {
        socket.off("error", fail);
        this.#socket = socket;
        done(socket);
      });
    });
  }
}

export async function load(target: Target, options: LoadOptions): Promise<LoadResult> {
  const lines = Array.from({ length: options.connections }, () => new Line(target));
  const took: number[] = [];
  const start = performance.now();
  const end = start + options.seconds * 1000;
  const everyMs = options.rate === undefined ? 0 : 1000 / options.rate;
  let next = start;
  await Promise.all(
    lines.map(async (line) => {
      while (performance.now() < end) {
        let due = performance.now();
        if (everyMs > 0) {
          due = next;
          next += everyMs;
          if (due >= end) return;
          await until(due);
        }
        await line.request();
        took.push(performance.now() - due);
      }
    }),
  );
  const elapsed = (performance.now() - start) / 1000;
  for (const line of lines) line.close();
  took.sort((a, b) => a - b);
  return {
    requests: took.length,
    perSecond: took.length / elapsed,
    p50Ms: quantile(took, 0.5),
    p99Ms: quantile(took, 0.99),
    bytes: sum(lines.map((line) => line.bytes)),
    failures: sum(lines.map((line) => line.failures)),
  };
}

/** Timers are a millisecond coarse: sleep to just before, then yield to the event loop until it is time. */
async function until(due: number): Promise<void> {
  const wait = due - performance.now();
  if (wait > 2) await new Promise((done) => setTimeout(done, wait - 1.5));
  while (performance.now() < due) await new Promise((done) => setImmediate(done));
}

function quantile(sorted: readonly number[], q: number): number {
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * q))] ?? Number.NaN;
}

function sum(values: readonly number[]): number {
  return values.reduce((total, value) => total + value, 0);
}
