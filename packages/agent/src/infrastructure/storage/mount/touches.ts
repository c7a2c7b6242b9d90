// Work of this process in a folder that may hang: each is given up after a while, and only few at once, so that a server
// that hangs in the middle of it holds few of this process's threads.
import { AppError } from "@gpve/contracts/errors.ts";

const AT_ONCE = 2;
const PATIENCE_MS = 30_000;

export class Touches {
  readonly #storage: string;
  readonly #patienceMs: number;
  readonly #waiting: (() => void)[] = [];
  #running = 0;
  /** Given up, and still in there. */
  #lost = 0;

  constructor(storage: string, patienceMs = PATIENCE_MS) {
    this.#storage = storage;
    this.#patienceMs = patienceMs;
  }

  async run<T>(work: () => Promise<T>): Promise<T> {
    this.#requireHope();
    if (this.#running >= AT_ONCE) await new Promise<void>((go) => this.#waiting.push(go));
    // While it waited the others may have got lost.
    this.#requireHope();
    this.#running += 1;
    const given = Promise.withResolvers<never>();
    let isLost = false;
    const timer = setTimeout(() => {
      isLost = true;
      this.#lost += 1;
      this.#next();
      given.reject(this.#hangs());
    }, this.#patienceMs);
    const done = work().finally(() => {
      clearTimeout(timer);
      if (isLost) this.#lost -= 1;
      else this.#next();
    });
    return Promise.race([done, given.promise]);
  }

  #next(): void {
    this.#running -= 1;
    this.#waiting.shift()?.();
  }

  #requireHope(): void {
    if (this.#lost < AT_ONCE) return;
    this.#waiting.shift()?.();
    throw this.#hangs();
  }

  #hangs(): AppError {
    return new AppError(
      "node.unavailable",
      `storage '${this.#storage}' is not online: its server stopped to answer in the middle of the work`,
      { pveStatus: 500 },
    );
  }
}
