// One watch on etcd for all who want parts of the same range, such as the agents of a server: etcd tells an event once,
// however many hear of it, and each gets its own part. Who comes late, or falls behind what is kept here, reads what he
// lacks from etcd and then joins the others.
import { given } from "@gpve/contracts/given.ts";
import type { Bytes, StoreEvent, WatchBatch, WatchRequest, Watching } from "../port.ts";
import { inRange } from "../keys.ts";

/** What is kept for those who are behind; who is further behind asks etcd. */
export interface SharedWatchLimits {
  readonly events: number;
  readonly bytes: number;
}

const LIMITS: SharedWatchLimits = { events: 10_000, bytes: 8 * 1024 * 1024 };
/** Told together at the most. */
const BATCH_EVENTS = 1_000;

type Part = WatchRequest & { readonly startRevision: number };

interface Follower {
  wake: () => void;
  /** Wants to hear of progress even if there is none. */
  asked: boolean;
  /** The watch of his own that he reads from while he is behind. */
  own: Watching | undefined;
  /** How far a progress that was asked for went. */
  answered: number | undefined;
}

/** Watches of one range each, made and ended as they are needed. */
export class SharedWatches {
  readonly #watch: (request: WatchRequest) => Watching;
  readonly #limits: SharedWatchLimits;
  readonly #shared = new Map<string, SharedWatch>();

  constructor(watch: (request: WatchRequest) => Watching, limits: SharedWatchLimits = LIMITS) {
    this.#watch = watch;
    this.#limits = limits;
  }

  /** What `request` wants of its range. */
  watch(request: Part): Watching {
    const follower: Follower = { wake: () => undefined, asked: false, own: undefined, answered: undefined };
    let shared: SharedWatch | undefined;
    return {
      [Symbol.asyncIterator]: () => {
        shared = this.#of(request);
        return shared.follow(request, follower);
      },
      requestProgress() {
        follower.asked = true;
        if (follower.own === undefined) shared?.ask();
        else follower.own.requestProgress();
      },
    };
  }

  #of({ key, end }: WatchRequest): SharedWatch {
    const name = `${hex(key)} ${end === undefined ? "" : hex(end)}`;
    const known = this.#shared.get(name);
    if (known !== undefined) return known;
    const made = new SharedWatch({
      watch: this.#watch,
      range: { key, ...given({ end }) },
      limits: this.#limits,
      onEnd: () => {
        if (this.#shared.get(name) === made) this.#shared.delete(name);
      },
    });
    this.#shared.set(name, made);
    return made;
  }
}

interface SharedWatchDeps {
  readonly watch: (request: WatchRequest) => Watching;
  readonly range: Pick<WatchRequest, "key" | "end">;
  readonly limits: SharedWatchLimits;
  readonly onEnd: () => void;
}

class SharedWatch {
  readonly #deps: SharedWatchDeps;
  readonly #over = new AbortController();
  readonly #source: Watching;
  readonly #followers = new Set<Follower>();
  #kept: { readonly revision: number; readonly events: readonly StoreEvent[] }[] = [];
  #keptEvents = 0;
  #keptBytes = 0;
  /** From this revision on everything is kept; undefined until the source is ready. */
  #first: number | undefined;
  /** Up to this revision everything has come. */
  #reached = 0;
  #failure: { readonly reason: unknown } | undefined;
  #running = false;
  #ended = false;

  constructor(deps: SharedWatchDeps) {
    this.#deps = deps;
    this.#source = deps.watch({ ...deps.range, progress: true, signal: this.#over.signal });
  }

  ask(): void {
    this.#source.requestProgress();
  }

  async *follow(request: Part, follower: Follower): AsyncGenerator<WatchBatch> {
    const { signal } = request;
    const onAbort = (): void => follower.wake();
    signal.addEventListener("abort", onAbort, { once: true });
    this.#followers.add(follower);
    this.#run();
    try {
      let next = request.startRevision;
      yield { type: "ready", revision: next - 1 };
      for (;;) {
        if (signal.aborted) return;
        if (this.#failure !== undefined) throw this.#failure.reason;
        if (this.#ended || (this.#first !== undefined && next < this.#first)) {
          const reached = yield* this.#catchUp({ ...request, startRevision: next }, follower);
          if (reached === undefined) return;
          next = reached;
        } else if (this.#first !== undefined && next <= this.#reached) {
          const { events, revision } = this.#take(request, next);
          next = revision + 1;
          if (events.length > 0) yield { type: "events", revision, events };
          else if (request.progress === true) yield { type: "progress", revision };
        } else if (follower.answered !== undefined) {
          const revision = follower.answered;
          [follower.answered, follower.asked] = [undefined, false];
          yield { type: "progress", revision };
        } else {
          const { promise, resolve } = Promise.withResolvers<void>();
          follower.wake = resolve;
          await promise;
          follower.wake = () => undefined;
        }
      }
    } finally {
      signal.removeEventListener("abort", onAbort);
      this.#followers.delete(follower);
      if (this.#followers.size === 0) this.#end();
    }
  }

  /** Tells what etcd has from a revision on until it is kept here. Undefined when the watch is over. */
  async *#catchUp(request: Part, follower: Follower): AsyncGenerator<WatchBatch, number | undefined> {
    const done = new AbortController();
    const own = this.#deps.watch({
      ...this.#deps.range,
      startRevision: request.startRevision,
      progress: true,
      signal: AbortSignal.any([request.signal, done.signal]),
    });
    follower.own = own;
    if (follower.asked) own.requestProgress();
    try {
      for await (const batch of own) {
        if (batch.type === "ready") continue;
        if (batch.type === "gap") {
          yield batch;
          return undefined;
        }
        const { revision } = batch;
        const events = batch.type === "events" ? batch.events.filter((one) => isWanted(request, one)) : [];
        if (events.length > 0) {
          yield { type: "events", revision, events };
        } else if (request.progress === true || (follower.asked && batch.type === "progress")) {
          if (batch.type === "progress") follower.asked = false;
          yield { type: "progress", revision };
        }
        if (!this.#ended && this.#first !== undefined && revision + 1 >= this.#first) return revision + 1;
      }
      return undefined;
    } finally {
      done.abort();
      follower.own = undefined;
      // Nobody will answer what he asked of his own watch.
      if (follower.asked) this.ask();
    }
  }

  #take(request: Part, next: number): { events: StoreEvent[]; revision: number } {
    let from = this.#kept.length;
    while ((this.#kept[from - 1]?.revision ?? 0) >= next) from -= 1;
    const events: StoreEvent[] = [];
    for (const batch of this.#kept.slice(from)) {
      for (const event of batch.events) {
        // One batch may begin before the first revision that is wanted.
        if (event.kv.modRevision >= next && isWanted(request, event)) events.push(event);
      }
      if (events.length >= BATCH_EVENTS) return { events, revision: batch.revision };
    }
    return { events, revision: this.#reached };
  }

  #run(): void {
    if (this.#running) return;
    this.#running = true;
    void this.#read().then(
      () => this.#end(),
      (reason: unknown) => {
        this.#failure = { reason };
        this.#end();
      },
    );
  }

  async #read(): Promise<void> {
    for await (const batch of this.#source) {
      if (this.#over.signal.aborted) return;
      switch (batch.type) {
        case "ready":
          this.#first = batch.revision + 1;
          this.#reached = Math.max(this.#reached, batch.revision);
          break;
        case "events":
          this.#keep(batch.revision, batch.events);
          break;
        case "progress":
          this.#reached = Math.max(this.#reached, batch.revision);
          for (const follower of this.#followers) if (follower.asked) follower.answered = batch.revision;
          break;
        case "gap":
          // Everybody reads from etcd what he lacks, and learns there whether it is gone.
          return;
      }
      for (const { wake } of this.#followers) wake();
    }
  }

  #keep(revision: number, events: readonly StoreEvent[]): void {
    const { limits } = this.#deps;
    this.#kept.push({ revision, events });
    this.#keptEvents += events.length;
    this.#keptBytes += bytesOf(events);
    this.#reached = revision;
    while (this.#keptEvents > limits.events || this.#keptBytes > limits.bytes) {
      const oldest = this.#kept.shift();
      if (oldest === undefined) return;
      this.#keptEvents -= oldest.events.length;
      this.#keptBytes -= bytesOf(oldest.events);
      this.#first = oldest.revision + 1;
    }
  }

  #end(): void {
    this.#ended = true;
    this.#deps.onEnd();
    this.#kept = [];
    this.#over.abort();
    for (const { wake } of this.#followers) wake();
  }
}

function isWanted({ only }: WatchRequest, { kv }: StoreEvent): boolean {
  return only === undefined || only.some((part) => inRange(kv.key, part.start, part.end));
}

function bytesOf(events: readonly StoreEvent[]): number {
  return events.reduce((sum, { kv }) => sum + kv.key.length + kv.value.length, 0);
}

function hex(bytes: Bytes): string {
  return Buffer.from(bytes).toString("hex");
}
