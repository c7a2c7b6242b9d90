// Watches on the SQLite engine. A watcher reads history from the tables until it has caught up, then is handed
// events as they are committed. One that falls behind is sent back to the history, so memory stays bounded and
// nothing is lost or told twice. All state changes happen between awaits on one thread: no gap is possible.
import { AppError } from "@gpve/contracts/errors.ts";
import type { StoreEvent, WatchBatch, WatchRequest, Watching } from "../port.ts";
import { inRange } from "../keys.ts";
import type { Tables } from "./tables.ts";

const REPLAY_EVENTS = 1_000;
/** Revisions that wait are told together, up to about as many events. */
const BATCH_EVENTS = 1_000;
const MAX_QUEUED_EVENTS = 10_000;
/** The same in bytes: a watcher costs so much memory, whatever the size of what it watches. */
const BATCH_BYTES = 2 * 1024 * 1024;
const MAX_QUEUED_BYTES = 8 * 1024 * 1024;

interface HubState {
  readonly revision: number;
  readonly compactRevision: number;
}

interface Watcher {
  readonly request: WatchRequest;
  live: boolean;
  queue: { revision: number; events: StoreEvent[] }[];
  queued: number;
  queuedBytes: number;
  progress: number;
  /** Somebody wants to hear of progress even if there is none. */
  asked: boolean;
  wake: () => void;
}

export class WatchHub {
  readonly #tables: Tables;
  readonly #state: () => HubState;
  readonly #watchers = new Set<Watcher>();
  #closed: AppError | undefined;

  constructor(tables: Tables, state: () => HubState) {
    this.#tables = tables;
    this.#state = state;
  }

  /** "From now on" means from this call, not from when the caller first asks for a batch. */
  watch(request: WatchRequest): Watching {
    const start = request.startRevision ?? this.#state().revision + 1;
    const watcher: Watcher = {
      request,
      live: false,
      queue: [],
      queued: 0,
      queuedBytes: 0,
      progress: 0,
      asked: false,
      wake: () => undefined,
    };
    return {
      [Symbol.asyncIterator]: () => this.#run(watcher, start),
      requestProgress() {
        watcher.asked = true;
        watcher.wake();
      },
    };
  }

  /** Called once per committed revision, in order, after the commit. */
  publish(revision: number, events: readonly StoreEvent[]): void {
    for (const watcher of this.#watchers) {
      if (!watcher.live) continue;
      const matching = events.filter((event) => isWanted(watcher.request, event));
      if (matching.length > 0) {
        const told = this.#decorate(watcher.request, matching);
        watcher.queue.push({ revision, events: told });
        watcher.queued += told.length;
        watcher.queuedBytes += bytesOf(told);
        if (watcher.queued > MAX_QUEUED_EVENTS || watcher.queuedBytes > MAX_QUEUED_BYTES) {
          watcher.live = false;
          watcher.queue = [];
        }
        watcher.wake();
      } else if (watcher.request.progress === true) {
        watcher.progress = revision;
        watcher.wake();
      }
    }
  }

  get size(): number {
    return this.#watchers.size;
  }

  close(reason: AppError): void {
    this.#closed = reason;
    for (const watcher of this.#watchers) watcher.wake();
  }

  async *#run(watcher: Watcher, start: number): AsyncGenerator<WatchBatch> {
    const { request } = watcher;
    const { signal } = request;
    const onAbort = (): void => watcher.wake();
    signal.addEventListener("abort", onAbort, { once: true });
    this.#watchers.add(watcher);
    try {
      let next = start;
      if (signal.aborted) return;
      yield { type: "ready", revision: start - 1 };
      for (;;) {
        if (signal.aborted) return;
        if (this.#closed !== undefined) throw this.#closed;
        if (!watcher.live) {
          const { revision, compactRevision } = this.#state();
          if (next > revision) {
            watcher.queued = 0;
            watcher.queuedBytes = 0;
            watcher.live = true;
            continue;
          }
          if (next < compactRevision) {
            yield { type: "gap", compactRevision };
            return;
          }
          const { events, reached } = this.#tables.events(request, next, revision, {
            events: REPLAY_EVENTS,
            bytes: BATCH_BYTES,
          });
          next = reached + 1;
          const wanted = request.only === undefined ? events : events.filter((one) => isWanted(request, one));
          if (wanted.length > 0) {
            yield { type: "events", revision: reached, events: this.#decorate(request, wanted) };
          } else if (request.progress === true) {
            yield { type: "progress", revision: reached };
          }
          continue;
        }
        const batch = takeTogether(watcher, next);
        if (batch !== undefined) {
          next = batch.revision + 1;
          yield { type: "events", ...batch };
        } else if (watcher.asked) {
          watcher.asked = false;
          const { revision } = this.#state();
          next = Math.max(next, revision + 1);
          yield { type: "progress", revision };
        } else if (watcher.progress >= next) {
          next = watcher.progress + 1;
          yield { type: "progress", revision: watcher.progress };
        } else {
          const { promise, resolve } = Promise.withResolvers<void>();
          watcher.wake = resolve;
          await promise;
          watcher.wake = () => undefined;
        }
      }
    } finally {
      this.#watchers.delete(watcher);
      signal.removeEventListener("abort", onAbort);
    }
  }

  #decorate(request: WatchRequest, events: StoreEvent[]): StoreEvent[] {
    if (request.prevKv !== true) return events;
    return events.map((event) => {
      const prevKv = this.#tables.before(event.kv.key, event.kv.modRevision);
      return prevKv === undefined ? event : { ...event, prevKv };
    });
  }
}

/** What waits from revision `next` on, as one batch of whole revisions. */
function takeTogether(watcher: Watcher, next: number): Watcher["queue"][number] | undefined {
  const events: StoreEvent[] = [];
  let [revision, bytes] = [0, 0];
  while (events.length < BATCH_EVENTS && bytes < BATCH_BYTES) {
    const batch = watcher.queue.shift();
    if (batch === undefined) break;
    const size = bytesOf(batch.events);
    watcher.queued -= batch.events.length;
    watcher.queuedBytes -= size;
    bytes += size;
    if (batch.revision < next) continue;
    events.push(...batch.events);
    ({ revision } = batch);
  }
  return events.length === 0 ? undefined : { revision, events };
}

function isWanted({ key, end, only }: WatchRequest, { kv }: StoreEvent): boolean {
  if (!inRange(kv.key, key, end)) return false;
  return only === undefined || only.some((part) => inRange(kv.key, part.start, part.end));
}

function bytesOf(events: readonly StoreEvent[]): number {
  let bytes = 0;
  for (const { kv, prevKv } of events)
    bytes += kv.key.length + kv.value.length + (prevKv === undefined ? 0 : prevKv.value.length);
  return bytes;
}

export function closedError(path: string): AppError {
  return new AppError("store.unavailable", `the store ${path} has been closed`);
}
