// HTTP as bytes over TLS: what no client library would send, and exactly what came back.
import { connect, type TLSSocket } from "node:tls";

export interface RawAnswer {
  readonly status: number;
  readonly reason: string;
  readonly head: string;
  readonly body: string;
}

export interface Exchange {
  readonly answers: readonly RawAnswer[];
  readonly end: "answered" | "closed" | "timeout";
}

export interface Endpoint {
  readonly host: string;
  readonly port: number;
  readonly ca: Buffer;
}

/** One TLS connection that is opened when needed and again after the server closed it. */
export class RawConnection {
  readonly #endpoint: Endpoint;
  #socket: TLSSocket | undefined;
  #session: Buffer | undefined;

  constructor(endpoint: Endpoint) {
    this.#endpoint = endpoint;
  }

  /** Sends everything at once and reads until that many answers came, the server closed, or time is up. */
  async exchange(bytes: Buffer, expected: number, timeoutMs: number): Promise<Exchange> {
    const socket = this.#socket ?? (await this.#open());
    return new Promise((done) => {
      const answers: RawAnswer[] = [];
      let seen: Buffer = Buffer.alloc(0);
      const finish = (end: Exchange["end"]): void => {
        clearTimeout(timer);
        socket.off("data", onData).off("close", onClose);
        if (end !== "answered" || answers.some((answer) => closes(answer))) {
          this.#socket = undefined;
          socket.destroy();
        }
        done({ answers, end });
      };
      const onClose = (): void => {
        const last = readAnswer(seen, true);
        if (last !== undefined) answers.push(last.answer);
        finish("closed");
      };
      const onData = (chunk: Buffer): void => {
        seen = seen.length === 0 ? chunk : Buffer.concat([seen, chunk]);
        for (let next = readAnswer(seen, false); next !== undefined; next = readAnswer(seen, false)) {
          answers.push(next.answer);
          seen = seen.subarray(next.length);
          if (answers.length >= expected || closes(next.answer)) {
            finish("answered");
            return;
          }
        }
      };
      const timer = setTimeout(() => finish("timeout"), timeoutMs);
      socket.on("data", onData).on("close", onClose);
      socket.write(bytes);
    });
  }

  close(): void {
    this.#socket?.destroy();
    this.#socket = undefined;
  }

  #open(): Promise<TLSSocket> {
    const session = this.#session === undefined ? {} : { session: this.#session };
    return new Promise((done, fail) => {
      const socket = connect({ ...this.#endpoint, ALPNProtocols: ["http/1.1"], ...session });
      socket.setNoDelay(true);
      socket.on("session", (ticket) => (this.#session = ticket));
      socket.on("error", fail);
      socket.once("close", () => {
        if (this.#socket === socket) this.#socket = undefined;
      });
      socket.once("secureConnect", () => {
        socket.off("error", fail);
        // A reset is one of the answers a fuzzer gets; "close" follows.
        socket.on("error", () => undefined);
        this.#socket = socket;
        done(socket);
      });
    });
  }
}

function closes(answer: RawAnswer): boolean {
  return /\r\nconnection: close/i.test(answer.head);
}

function readAnswer(bytes: Buffer, ended: boolean): { answer: RawAnswer; length: number } | undefined {
  const end = bytes.indexOf("\r\n\r\n");
  if (end < 0) return undefined;
  const head = bytes.toString("latin1", 0, end);
  const [, status = "0", reason = ""] = /^HTTP\/1\.1 (\d{3}) ?([^\r]*)/.exec(head) ?? [];
  const length = /\r\ncontent-length: (\d+)/i.exec(head)?.[1];
  const chunked = /\r\ntransfer-encoding: chunked/i.test(head);
  const from = end + 4;
  let to = from + Number(length ?? 0);
  if (chunked) {
    const last = bytes.indexOf("0\r\n\r\n", from);
    to = last < 0 ? bytes.length + 1 : last + 5;
  }
  if (to > bytes.length) {
    if (!ended) return undefined;
    to = bytes.length;
  }
  const text = Buffer.from(reason, "latin1").toString("utf8");
  return {
    answer: { status: Number(status), reason: text, head, body: bytes.toString("utf8", from, to) },
    length: to,
  };
}
