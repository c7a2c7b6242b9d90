// The server's end of a websocket, in the hand of a test.
import type { MessageSocket } from "../transport.ts";

export class FakeSocket implements MessageSocket {
  /** What the client sent. */
  readonly sent: Buffer[] = [];
  isClosed = false;
  readonly #waiting: (Uint8Array | "end")[] = [];
  #wake = (): void => undefined;
  readonly #onMessage: (message: Buffer, socket: FakeSocket) => void;

  constructor(onMessage: (message: Buffer, socket: FakeSocket) => void) {
    this.#onMessage = onMessage;
  }

  get text(): string {
    return Buffer.concat(this.sent).toString("latin1");
  }

  /** Says something to the client. */
  say(message: string | Uint8Array): void {
    this.#waiting.push(Buffer.from(message as string));
    this.#wake();
  }

  end(): void {
    this.#waiting.push("end");
    this.#wake();
  }

  get messages(): AsyncIterable<Uint8Array> {
    return this.#read();
  }

  async *#read(): AsyncGenerator<Uint8Array> {
    for (;;) {
      const next = this.#waiting.shift();
      if (next === "end") return;
      if (next !== undefined) yield next;
      else await new Promise<void>((resolve) => (this.#wake = resolve));
    }
  }

  send(message: string | Uint8Array): Promise<void> {
    const bytes = Buffer.from(message as string);
    this.sent.push(bytes);
    this.#onMessage(bytes, this);
    return Promise.resolve();
  }

  close(): void {
    this.isClosed = true;
    this.end();
  }
}
