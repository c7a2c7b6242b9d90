// What waits to be sent on one stream. Whoever adds something large waits until the other side has taken enough, so
// that a slow reader slows its own watches down instead of filling memory.

const ROOM = 16;

export class Outbox<T> implements AsyncIterable<T> {
  readonly #items: T[] = [];
  readonly #waiting: (() => void)[] = [];
  #ended = false;
  #failure: Error | undefined;
  #wake: () => void = () => undefined;

  /** Small answers: never waits. */
  add(item: T): void {
    if (this.#ended) return;
    this.#items.push(item);
    this.#wake();
  }

  /** Resolves when there is room for the next one. */
  async put(item: T): Promise<void> {
    this.add(item);
    if (this.#items.length < ROOM || this.#ended) return;
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
        if (this.#items.length < ROOM) this.#release();
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

  #release(): void {
    for (const resolve of this.#waiting.splice(0)) resolve();
  }
}
