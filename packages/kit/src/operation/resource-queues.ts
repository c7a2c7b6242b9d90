// Who may work on which resource. One FIFO per resource key; an operation starts when it is first in the queues
// of all its keys and nobody holds them. Those that only read a resource hold it together: a hundred clones of one
// template do not wait for each other. All keys are taken together and places in the queues follow one global
// order, so there is no deadlock. Synchronous callers go before waiting operations, and get in between the steps
// of a running one.

export interface QueueEntry {
  readonly id: string;
  readonly order: number;
  readonly sequence: number;
  readonly keys: readonly string[];
  /** Those among the keys that it only reads. */
  readonly shared?: readonly string[];
}

interface SyncCaller {
  readonly keys: readonly string[];
  readonly grant: () => void;
}

export class ResourceQueues {
  readonly #waiting: QueueEntry[] = [];
  /** Either one that changes a resource, or any number that read it. */
  readonly #holders = new Map<string, Set<QueueEntry>>();
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
    const readAhead = new Set<string>();
    for (const caller of this.#syncWaiting) for (const key of caller.keys) blocked.add(key);
    const isFree = (entry: QueueEntry, key: string): boolean => {
      if (blocked.has(key) || this.#syncHeld.has(key)) return false;
      const holders = [...(this.#holders.get(key) ?? [])];
      return reads(entry, key)
        ? holders.every((holder) => reads(holder, key))
        : holders.length === 0 && !readAhead.has(key);
    };
    for (const [at, entry] of this.#waiting.entries()) {
      if (entry.keys.every((key) => isFree(entry, key))) {
        this.#waiting.splice(at, 1);
        this.hold(entry);
        return entry;
      }
      for (const key of entry.keys) (reads(entry, key) ? readAhead : blocked).add(key);
    }
    return undefined;
  }

  /** Takes the keys without waiting: for what was already running before a restart. */
  hold(entry: QueueEntry): void {
    for (const key of entry.keys) {
      const holders = this.#holders.get(key);
      if (holders === undefined) this.#holders.set(key, new Set([entry]));
      else holders.add(entry);
    }
  }

  release({ id, keys }: QueueEntry): void {
    for (const key of keys) {
      const holders = this.#holders.get(key);
      for (const holder of holders ?? []) if (holder.id === id) holders?.delete(holder);
      if (holders?.size === 0) this.#holders.delete(key);
    }
    this.#settle();
  }

  /** An operation running on a key; not one that just lets synchronous callers through. */
  holderOf(key: string): QueueEntry | undefined {
    return [...(this.#holders.get(key) ?? [])].find((holder) => !this.#parked.has(holder.id));
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

function reads({ shared }: QueueEntry, key: string): boolean {
  return shared?.includes(key) === true;
}

function comesBefore(a: QueueEntry, b: QueueEntry): boolean {
  return a.order === b.order ? a.sequence < b.sequence : a.order < b.order;
}
