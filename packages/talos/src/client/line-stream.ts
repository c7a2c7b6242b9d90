// A line through the platform as a stream, which TLS takes as it takes a socket. It is being opened while it is there already:
// what is written waits, and a line that is refused ends it with the platform's words.
import { Duplex } from "node:stream";
import type { MessageSocket } from "@gpve/client/transport.ts";

type Told = (err?: Error | null) => void;

export class LineStream extends Duplex {
  readonly #open: (signal: AbortSignal) => Promise<MessageSocket>;
  readonly #abort = new AbortController();
  #line: MessageSocket | undefined;
  #messages: AsyncIterator<Uint8Array> | undefined;

  constructor(open: (signal: AbortSignal) => Promise<MessageSocket>) {
    super({ allowHalfOpen: false });
    this.#open = open;
    // Told by its end to whoever has nobody to hear it.
    this.on("error", () => undefined);
  }

  override _construct(told: Told): void {
    settle(this.#begin(), told);
  }

  override _read(): void {
    this.#messages?.next().then(
      ({ done, value }) => this.push(done === true ? null : value),
      (err: unknown) => this.destroy(err as Error),
    );
  }

  override _write(chunk: Uint8Array, _encoding: string, told: Told): void {
    settle(this.#line?.send(chunk) ?? Promise.resolve(), told);
  }

  override _destroy(err: Error | null, callback: (err: Error | null) => void): void {
    this.#abort.abort();
    this.#line?.close();
    callback(err);
  }

  async #begin(): Promise<void> {
    const line = await this.#open(this.#abort.signal);
    this.#line = line;
    this.#messages = line.messages[Symbol.asyncIterator]();
    if (this.#abort.signal.aborted) line.close();
  }
}

function settle(work: Promise<void>, told: Told): void {
  work.then(
    () => told(),
    (err: unknown) => told(err as Error),
  );
}
