// A guest that counts over one TCP connection, and who listens: what its users see of a move.
import { connect, type Socket } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";

const PORT = 9000;
const EVERY_US = 10_000;
const PATIENCE_MS = 60_000;

const count = `i=0; while usleep ${EVERY_US}; do i=$((i+1)); echo $i; done`;

/** Lines for a shell in the guest. */
export const countScript = [
  `printf '#!/bin/sh\\n%s\\n' '${count}' > /tmp/count.sh`,
  "chmod +x /tmp/count.sh",
  `setsid nc -ll -p ${PORT} -e /tmp/count.sh </dev/null >/dev/null 2>&1 &`,
].join("\n");

/** One connection that must never break, and on which no number may be missing or come twice. */
export class Counter {
  readonly #socket: Socket;
  #last = 0;
  #heard = performance.now();
  #rest = "";
  problem: string | undefined;
  longest = 0;
  /** By `performance.now()`. */
  longestEndedAt = 0;

  private constructor(socket: Socket) {
    this.#socket = socket;
    socket.on("data", (data) => this.#take(data.toString("latin1")));
    socket.on("error", (err) => (this.problem ??= err.message));
    socket.on("close", () => (this.problem ??= "the guest hung up"));
  }

  static async connect(address: string): Promise<Counter> {
    const socket = await persist(250, () => dial(address));
    socket.setTimeout(0);
    const counter = new Counter(socket);
    await counter.goesOn();
    return counter;
  }

  #take(text: string): void {
    const now = performance.now();
    if (now - this.#heard > this.longest) {
      this.longest = now - this.#heard;
      this.longestEndedAt = now;
    }
    this.#heard = now;
    const lines = (this.#rest + text).split("\n");
    this.#rest = lines.pop() ?? "";
    for (const line of lines) {
      if (Number(line) !== this.#last + 1) this.problem ??= `after ${this.#last} came ${line}`;
      this.#last = Number(line);
    }
  }

  async goesOn(): Promise<void> {
    const from = this.#last;
    await persist(20, async () => {
      if (this.problem === undefined && this.#last <= from + 5)
        throw new Error(`the guest's counter stands at ${this.#last}`);
    });
    if (this.problem !== undefined) throw new Error(`the guest's counter: ${this.problem}`);
  }

  close(): void {
    this.#socket.removeAllListeners("close");
    this.#socket.destroy();
  }
}

function dial(address: string): Promise<Socket> {
  return new Promise((resolve, reject) => {
    const socket = connect({ host: address, port: PORT, timeout: 3_000 }, () => resolve(socket));
    socket.once("error", reject);
    socket.once("timeout", () => socket.destroy(new Error(`${address}:${PORT} does not answer`)));
  });
}

/** Until it works, or for a minute. */
async function persist<T>(everyMs: number, attempt: () => Promise<T>): Promise<T> {
  for (const end = performance.now() + PATIENCE_MS; ;) {
    try {
      return await attempt();
    } catch (err) {
      if (performance.now() > end) throw err;
      await sleep(everyMs);
    }
  }
}

export function quantiles(values: readonly number[]): { p50: number; p99: number; max: number } {
  const sorted = values.toSorted((a, b) => a - b);
  const at = (share: number): number =>
    sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? 0;
  return { p50: at(0.5), p99: at(0.99), max: sorted.at(-1) ?? 0 };
}
