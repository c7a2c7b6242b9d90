// A connection on which one end sends and the other answers when it is asked. What the other says before is why it cannot go
// on: then it hangs up.
import type { Duplex } from "node:stream";
import { AppError } from "@gpve/contracts/errors.ts";
import { roomIn } from "@gpve/kit/stream-room.ts";
import { readLine, writeLine } from "./move-wire.ts";

export class AnsweredLine {
  readonly #socket: Duplex;
  readonly #answerOf: (line: unknown) => unknown;
  readonly #other: string;

  /** `other` names the other end. */
  constructor(socket: Duplex, answerOf: (line: unknown) => unknown, other: string) {
    this.#socket = socket;
    this.#answerOf = answerOf;
    this.#other = other;
  }

  async ask(line: object): Promise<unknown> {
    await this.say(line);
    return this.#answerOf(await readLine(this.#socket));
  }

  say(line: object): Promise<void> {
    return this.write(Buffer.from(`${JSON.stringify(line)}\n`));
  }

  async write(bytes: Uint8Array): Promise<void> {
    if (this.#socket.destroyed || this.#socket.readableLength > 0) {
      this.#answerOf(await readLine(this.#socket));
      throw new AppError("node.unavailable", `${this.#other} answered before it was asked`);
    }
    if (!this.#socket.write(bytes)) await roomIn(this.#socket);
  }

  close(): void {
    this.#socket.destroy();
  }
}

/** The other end. What `work` throws is its last answer, as `failure` puts it; `leave` is called whatever happens. */
export async function answerLine(
  socket: Duplex,
  failure: (err: unknown) => unknown,
  work: () => Promise<void>,
  leave: () => Promise<void> | undefined,
): Promise<void> {
  try {
    await work();
  } catch (err) {
    writeLine(socket, { error: failure(err) });
  } finally {
    await leave();
    socket.end();
    // Who still sends must be able to read why.
    socket.resume();
  }
}
