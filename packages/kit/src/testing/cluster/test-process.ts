// A part of the product on a machine of the test network: started, stopped, killed, started again.
import { appendFileSync } from "node:fs";
import { connect } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";
import { AppError, messageOf } from "@gpve/contracts/errors.ts";
import { MINIMAL_ENV } from "../../exec.ts";
import { startChild, type Child } from "../child.ts";

const START_MS = 180_000;

export class TestProcess {
  readonly #argv: readonly string[];
  readonly #logFile: string;
  readonly #target: { readonly address: string; readonly port: number };
  readonly #startMs: number;
  #child: Child | undefined;

  constructor(options: {
    argv: readonly string[];
    logFile: string;
    address: string;
    port: number;
    /** By when its port accepts connections. */
    startMs?: number | undefined;
  }) {
    this.#argv = options.argv;
    this.#logFile = options.logFile;
    this.#target = options;
    this.#startMs = options.startMs ?? START_MS;
  }

  get running(): boolean {
    return this.#child !== undefined;
  }

  output(): string {
    return this.#child?.output() ?? "";
  }

  /** Resolves when its port accepts connections. */
  async start(): Promise<void> {
    if (this.#child !== undefined) return;
    const [file = "", ...args] = this.#argv;
    const env = { ...MINIMAL_ENV, HOME: process.env["HOME"] ?? "/root" };
    const child = startChild(file, args, { env });
    this.#child = child;
    child.onLine((line) => appendFileSync(this.#logFile, `${line}\n`));
    let ended: number | string | undefined;
    void child.exited.then((how) => {
      ended = how;
      if (this.#child === child) this.#child = undefined;
    });
    const name = this.#argv.join(" ");
    try {
      await eventually("its port", this.#startMs, async () => {
        if (ended !== undefined) throw new AppError("internal.error", `it ended with ${ended}`);
        return accepts(this.#target.address, this.#target.port);
      });
    } catch (cause) {
      const said = child.output().slice(-4_000);
      await this.kill();
      throw new AppError("internal.error", `${name} does not start: ${messageOf(cause)}\n${said}`, { cause });
    }
  }

  /** As a service manager does: TERM, then KILL. */
  async stop(): Promise<void> {
    const child = this.#child;
    if (child === undefined) return;
    child.signal("SIGTERM");
    const patience = new AbortController();
    await Promise.race([
      child.exited,
      sleep(15_000, undefined, { signal: patience.signal }).catch(() => undefined),
    ]);
    patience.abort();
    await child.stop();
    this.#child = undefined;
  }

  async kill(): Promise<void> {
    await this.#child?.stop();
    this.#child = undefined;
  }
}

/** Asks until the answer is true. An exception ends the wait: it is the reason why it never will be. */
export async function eventually(
  what: string,
  timeoutMs: number,
  check: () => Promise<boolean> | boolean,
): Promise<void> {
  const end = performance.now() + timeoutMs;
  while (!(await check())) {
    if (performance.now() > end) throw new AppError("request.timeout", `waited ${timeoutMs} ms for ${what}`);
    // Who waits for long waits for an emulated machine, whose processor is not to be spent on questions.
    await sleep(Math.max(100, timeoutMs / 1_000));
  }
}

function accepts(address: string, port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect({ host: address, port, timeout: 1_000 });
    const done = (answer: boolean) => (): void => {
      socket.destroy();
      resolve(answer);
    };
    socket.once("connect", done(true));
    socket.once("timeout", done(false));
    socket.once("error", done(false));
  });
}
