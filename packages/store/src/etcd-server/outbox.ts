// What waits to be sent on one stream. Whoever adds something large waits until the other side has taken enough, so
// that a slow reader slows its own watches down instead of filling memory.

const ROOM = 16;
const ROOM_BYTES = 2 * 1024 * 1024;

export class Outbox<T> implements AsyncIterable<T> {
  readonly #items: T[] = [];
  readonly #waiting: (() => void)[] = [];
  readonly #sizeOf: (item: T) => number;
  #bytes = 0;
  #ended = false;
  #failure: Error | undefined;
  #wake: () => void = () => undefined;

  /** `sizeOf`: bytes that an item takes, where that matters. */
  constructor(sizeOf: (item: T) => number = () => 0) {
    this.#sizeOf = sizeOf;
  }

  /** Small answers: never waits. */
  add(item: T): void {
    if (this.#ended) return;
    this.#items.push(item);
    this.#bytes += this.#sizeOf(item);
    this.#wake();
  }

  /** Resolves when there is room for the next one. */
  async put(item: T): Promise<void> {
    this.add(item);
    if (this.#hasRoom() || this.#ended) return;
    await new Promise<void>((resolve) => this.#waiting.push(resolve));
  }

  /** What waits is still sent. */
  end(failure?: Error): void {
    if (this.#ended) return;
    this.#ended = true;
    this.#failure = failure;
    this.#release();
    this.#wake();
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<T> {
    for (;;) {
      const item = this.#items.shift();
      if (item !== undefined) {
        this.#bytes -= this.#sizeOf(item);
        if (this.#hasRoom()) this.#release();
        yield item;
        continue;
      }
      if (this.#ended) {
        if (this.#failure !== undefined) throw this.#failure;
        return;
      }
      const { promise, resolve } = Promise.withResolvers<void>();
      this.#wake = resolve;
      await promise;
    }
  }

  #hasRoom(): boolean {
    return this.#items.length < ROOM && this.#bytes < ROOM_BYTES;
  }

  #release(): void {
    for (const resolve of this.#waiting.splice(0)) resolve();
  }
}
