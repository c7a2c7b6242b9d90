// The guest agent's channel is a plain pipe into the guest: nobody says when the agent came, went or lost the thread.
// So every conversation begins with guest-sync-delimited: we send 0xFF and a random number, and whatever comes before
// the agent's own 0xFF and that number is left over from an earlier one. After a time-out we do so again.
import { randomInt } from "node:crypto";
import type { Socket } from "node:net";
import { given } from "@gpve/contracts/given.ts";
import { AppError, isAppError } from "@gpve/contracts/errors.ts";
import type { GuestAgent, GuestAgentCall } from "@gpve/domain/vm/running/guest-agent.ts";
import { type Clock, systemClock } from "@gpve/kit/clock.ts";
import { connectUnixSocket } from "@gpve/kit/unix-socket.ts";
import { LineFraming } from "../qmp/line-framing.ts";

export interface GuestAgentOptions {
  readonly path: string;
  readonly label: string;
  readonly ownerUid?: number;
  readonly clock?: Clock;
  /** How long the agent may take to answer a sync before it counts as not running. */
  readonly syncTimeoutMs?: number;
}

const SENTINEL = 0xff;
const DEFAULT_TIMEOUT_MS = 10_000;

export class GuestAgentClient implements GuestAgent {
  readonly #options: GuestAgentOptions;
  readonly #clock: Clock;
  readonly #framing = new LineFraming();
  #tail: Promise<unknown> = Promise.resolve();
  #socket: Socket | undefined;
  #inSync = false;
  #onLine: ((line: string) => void) | undefined;
  #onEnd: (() => void) | undefined;

  constructor(options: GuestAgentOptions) {
    this.#options = options;
    this.#clock = options.clock ?? systemClock;
  }

  execute(
    command: string,
    args?: Readonly<Record<string, unknown>>,
    options: GuestAgentCall = {},
  ): Promise<unknown> {
    const work = (): Promise<unknown> => this.#run(command, args, options);
    const result = this.#tail.then(work, work);
    this.#tail = result.catch(() => undefined);
    return result;
  }

  async isRunning(options: GuestAgentCall = {}): Promise<boolean> {
    try {
      await this.execute("guest-ping", undefined, options);
      return true;
    } catch (err) {
      if (isAppError(err, "guest_agent.unavailable") || isAppError(err, "request.timeout")) return false;
      throw err;
    }
  }

  close(): void {
    this.#socket?.destroy();
    this.#socket = undefined;
    this.#inSync = false;
  }

  async #run(
    command: string,
    args: Readonly<Record<string, unknown>> | undefined,
    options: GuestAgentCall,
  ): Promise<unknown> {
    const { timeoutMs = DEFAULT_TIMEOUT_MS, signal } = options;
    if (signal?.aborted === true) throw cancelled(this.#options.label, command);
    const socket = await this.#connect(signal);
    if (!this.#inSync) await this.#sync(socket, signal);
    const line = `${JSON.stringify({ execute: command, ...given({ arguments: args }) })}\n`;
    if (options.noReply === true) {
      socket.write(line);
      this.#inSync = false; // an error may still come; the next sync throws it away
      return {};
    }
    const answer = parse(
      await this.#ask(socket, line, command, timeoutMs, signal, (text) =>
        parse(text) === undefined ? undefined : text,
      ),
    );
    const error = answer?.["error"] as { class?: string; desc?: string } | undefined;
    if (error === undefined) return answer?.["return"];
    throw new AppError(
      "guest_agent.failed",
      `${this.#options.label} qmp command '${command}' failed - ${error.desc ?? "unknown error"}`,
      {
        pveStatus: 500,
        data: { command, class: error.class ?? "GenericError", desc: error.desc ?? "" },
      },
    );
  }

  async #connect(signal: AbortSignal | undefined): Promise<Socket> {
    if (this.#socket !== undefined) return this.#socket;
    const { path, ownerUid } = this.#options;
    let socket: Socket;
    try {
      socket = await connectUnixSocket(path, {
        clock: this.#clock,
        ...given({ ownerUid, signal }),
      });
    } catch (cause) {
      if (isAppError(cause, "operation.cancelled")) throw cause;
      throw notRunning(cause);
    }
    socket.on("data", (chunk: Buffer) => this.#read(chunk));
    socket.on("error", () => socket.destroy());
    socket.on("close", () => {
      if (this.#socket === socket) this.close();
      this.#onEnd?.();
    });
    this.#socket = socket;
    this.#framing.reset();
    return socket;
  }

  async #sync(socket: Socket, signal: AbortSignal | undefined): Promise<void> {
    const { syncTimeoutMs = 3_000 } = this.#options;
    const id = randomInt(1, 2 ** 31);
    const request = Buffer.concat([
      Buffer.from([SENTINEL]),
      Buffer.from(`${JSON.stringify({ execute: "guest-sync-delimited", arguments: { id } })}\n`),
    ]);
    try {
      await this.#ask(socket, request, "guest-sync-delimited", syncTimeoutMs, signal, (line) =>
        parse(line)?.["return"] === id ? line : undefined,
      );
    } catch (err) {
      if (isAppError(err, "operation.cancelled")) throw err;
      throw notRunning(err);
    }
    this.#inSync = true;
  }

  #ask(
    socket: Socket,
    request: string | Uint8Array,
    command: string,
    timeoutMs: number,
    signal: AbortSignal | undefined,
    accept: (line: string) => string | undefined,
  ): Promise<string> {
    const { label } = this.#options;
    return new Promise((resolve, reject) => {
      const finish = (): void => {
        stopTimer();
        signal?.removeEventListener("abort", onAbort);
        this.#onLine = undefined;
        this.#onEnd = undefined;
      };
      const fail = (error: AppError): void => {
        finish();
        this.#inSync = false;
        reject(error);
      };
      const onAbort = (): void => fail(cancelled(label, command));
      const stopTimer = this.#clock.after(timeoutMs, () =>
        fail(
          new AppError("request.timeout", `${label} qmp command '${command}' failed - got timeout`, {
            pveStatus: 500,
            data: { command, timeoutMs },
          }),
        ),
      );
      signal?.addEventListener("abort", onAbort, { once: true });
      this.#onLine = (line) => {
        const accepted = accept(line);
        if (accepted === undefined) return;
        finish();
        resolve(accepted);
      };
      this.#onEnd = () => fail(notRunning());
      socket.write(request);
    });
  }

  #read(chunk: Buffer): void {
    const mark = chunk.lastIndexOf(SENTINEL);
    if (mark >= 0) this.#framing.reset();
    try {
      for (const line of this.#framing.push(mark < 0 ? chunk : chunk.subarray(mark + 1)))
        this.#onLine?.(line);
    } catch {
      this.close(); // a guest that never ends its line gets a fresh start
    }
  }
}

function parse(line: string): Record<string, unknown> | undefined {
  try {
    const value: unknown = JSON.parse(line);
    return typeof value === "object" && value !== null ? (value as Record<string, unknown>) : undefined;
  } catch {
    return undefined; // left over from another conversation
  }
}

function notRunning(cause?: unknown): AppError {
  return new AppError("guest_agent.unavailable", "QEMU guest agent is not running", {
    pveStatus: 500,
    ...given({ cause }),
  });
}

function cancelled(label: string, command: string): AppError {
  return new AppError("operation.cancelled", `${label} qmp command '${command}' was cancelled`);
}
