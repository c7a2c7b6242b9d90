// Who may work on which resource. One FIFO per resource key; an operation starts when it is first in the queues
// of all its keys and nobody holds them. All keys are taken together and places in the queues follow one global
// order, so there is no deadlock. Synchronous callers go before waiting operations, and get in between the steps
// of a running one.

export interface QueueEntry {
  readonly id: string;
  readonly order: number;
  readonly sequence: number;
  readonly keys: readonly string[];
}

interface SyncCaller {
  readonly keys: readonly string[];
  readonly grant: () => void;
}

export class ResourceQueues {
  readonly #waiting: QueueEntry[] = [];
  readonly #holders = new Map<string, QueueEntry>();
  readonly #parked = new Map<string, { readonly entry: QueueEntry; readonly resume: () => void }>();
  readonly #syncHeld = new Set<string>();
  readonly #syncWaiting: SyncCaller[] = [];
  readonly #onChange: () => void;

  /** `onChange`: something was freed, try `take` again. */
  constructor(onChange: () => void) {
    this.#onChange = onChange;
  }

  get waiting(): number {
    return this.#waiting.length;
  }

  add(entry: QueueEntry): void {
    let low = 0;
    let high = this.#waiting.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      const other = this.#waiting[middle];
      if (other !== undefined && comesBefore(other, entry)) low = middle + 1;
      else high = middle;
    }
    this.#waiting.splice(low, 0, entry);
  }

  /** Forgets a waiting entry. */
  drop(id: string): boolean {
    const at = this.#waiting.findIndex((entry) => entry.id === id);
    if (at < 0) return false;
    this.#waiting.splice(at, 1);
    return true;
  }

  /** The next entry that may start; it then holds its keys. */
  take(): QueueEntry | undefined {
    const blocked = new Set<string>();
    for (const caller of this.#syncWaiting) for (const key of caller.keys) blocked.add(key);
    const isFree = (key: string): boolean =>
      !blocked.has(key) && !this.#holders.has(key) && !this.#syncHeld.has(key);
    for (const [at, entry] of this.#waiting.entries()) {
      if (entry.keys.every(isFree)) {
        this.#waiting.splice(at, 1);
        this.hold(entry);
        return entry;
      }
      for (const key of entry.keys) blocked.add(key);
    }
    return undefined;
  }

  /** Takes the keys without waiting: for what was already running before a restart. */
  hold(entry: QueueEntry): void {
    for (const key of entry.keys) this.#holders.set(key, entry);
  }

  release(entry: QueueEntry): void {
    for (const key of entry.keys) if (this.#holders.get(key)?.id === entry.id) this.#holders.delete(key);
    this.#settle();
  }

  /** The operation running on a key; not one that just lets synchronous callers through. */
  holderOf(key: string): QueueEntry | undefined {
    const holder = this.#holders.get(key);
    return holder === undefined || this.#parked.has(holder.id) ? undefined : holder;
  }

  /** Between two steps: lets synchronous callers through, then resolves. */
  letThrough(entry: QueueEntry): Promise<void> {
    if (!this.#isWanted(entry)) return Promise.resolve();
    return new Promise((resume) => {
      this.#parked.set(entry.id, { entry, resume });
      this.#settle();
    });
  }

  /** For synchronous callers. `release` is given with the grant; `give up` before it forgets the request. */
  request(keys: readonly string[]): { readonly granted: Promise<() => void>; readonly giveUp: () => void } {
    const { promise, resolve } = Promise.withResolvers<() => void>();
    const caller: SyncCaller = {
      keys,
      grant: () => {
        for (const key of keys) this.#syncHeld.add(key);
        resolve(() => {
          for (const key of keys) this.#syncHeld.delete(key);
          this.#settle();
        });
      },
    };
    this.#syncWaiting.push(caller);
    this.#grantSync();
    const giveUp = (): void => {
      const at = this.#syncWaiting.indexOf(caller);
      if (at >= 0) this.#syncWaiting.splice(at, 1);
      this.#settle();
    };
    return { granted: promise, giveUp };
  }

  #settle(): void {
    this.#grantSync();
    for (const [id, { entry, resume }] of this.#parked) {
      if (this.#isWanted(entry)) continue;
      this.#parked.delete(id);
      resume();
    }
    this.#onChange();
  }

  #grantSync(): void {
    const blocked = new Set<string>();
    for (const caller of this.#syncWaiting.slice()) {
      const isFree = caller.keys.every(
        (key) => !blocked.has(key) && !this.#syncHeld.has(key) && this.holderOf(key) === undefined,
      );
      if (isFree) {
        this.#syncWaiting.splice(this.#syncWaiting.indexOf(caller), 1);
        caller.grant();
      } else for (const key of caller.keys) blocked.add(key);
    }
  }

  #isWanted(entry: QueueEntry): boolean {
    return entry.keys.some(
      (key) => this.#syncHeld.has(key) || this.#syncWaiting.some((caller) => caller.keys.includes(key)),
    );
  }
}

function comesBefore(a: QueueEntry, b: QueueEntry): boolean {
  return a.order === b.order ? a.sequence < b.sequence : a.order < b.order;
}
