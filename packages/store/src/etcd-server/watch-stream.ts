// One stream of etcd's Watch service: any number of watches, each fed by the Store, all answers through one outbox.
import type { Clock } from "@gpve/kit/clock.ts";
import { isAppError } from "@gpve/contracts/errors.ts";
import { compareBytes, isToTheEnd } from "../keys.ts";
import type { Bytes, Store, StoreEvent, Watching } from "../port.ts";
import type { WatchCreateRequest, WatchRequest } from "../gen/proto/etcdserverpb/rpc_pb.ts";
import { PERMISSION_DENIED, TOO_MANY_REQUESTS, toEtcd } from "./etcd-texts.ts";
import { type WatchAnswer, fragments } from "./fragments.ts";
import { type ServedMember, headerOf } from "./member.ts";
import { Outbox } from "./outbox.ts";
import { endOf } from "./range-plan.ts";
import { previous, toKeyValue } from "./transaction.ts";

export interface WatchStreamDeps {
  readonly store: Store;
  readonly member: ServedMember;
  readonly clock: Clock;
  /** How often a quiet watch that wants it hears how far the store is. */
  readonly progressNotifyMs: number;
  /** How many watches may be open at a time. */
  readonly maxWatches: number;
}

interface OpenWatch {
  readonly id: bigint;
  readonly startRevision: number;
  readonly watching: Watching;
  readonly stop: AbortController;
  readonly request: WatchCreateRequest;
  /** Events or progress were sent since the last look. */
  spoke: boolean;
  /** A notification of its own was asked for. */
  notify: boolean;
}

/** An answer to all watches of the stream. */
const ALL_WATCHES = -1n;
const NO_PUT = 0;
const NO_DELETE = 1;
const FIRST_KEY: Bytes = Uint8Array.of(0);

export class WatchStream {
  readonly #deps: WatchStreamDeps;
  readonly #outbox = new Outbox<WatchAnswer>(bytesOf);
  readonly #watches = new Map<bigint, OpenWatch>();
  /** Watches that have not answered yet to what the client asked, and the lowest answer so far. */
  #asked: { readonly waiting: Set<OpenWatch>; revision: number; again: boolean } | undefined;
  #nextId = 0n;
  #cancelNotify: (() => void) | undefined;

  constructor(deps: WatchStreamDeps) {
    this.#deps = deps;
  }

  async *answer(requests: AsyncIterable<WatchRequest>, signal: AbortSignal): AsyncGenerator<WatchAnswer> {
    const onAbort = (): void => this.#outbox.end();
    signal.addEventListener("abort", onAbort, { once: true });
    void this.#read(requests).then(
      () => this.#outbox.end(),
      (err: unknown) => this.#outbox.end(toEtcd(err)),
    );
    try {
      yield* this.#outbox;
    } finally {
      signal.removeEventListener("abort", onAbort);
      this.#cancelNotify?.();
      this.#outbox.end();
      for (const { stop } of this.#watches.values()) stop.abort();
    }
  }

  async #read(requests: AsyncIterable<WatchRequest>): Promise<void> {
    for await (const { requestUnion: union } of requests) {
      if (union.case === "createRequest") await this.#create(union.value);
      else if (union.case === "cancelRequest") await this.#cancel(union.value.watchId);
      else if (union.case === "progressRequest") this.#askAll();
    }
  }

  /** Waits until its answer has room, as does `#cancel`: who does not read is not read from. */
  async #create(request: WatchCreateRequest): Promise<void> {
    const { store } = this.#deps;
    const revision = await store.revision();
    const refuse = (reason: string): Promise<void> =>
      this.#outbox.put({
        header: this.#header(revision),
        watchId: ALL_WATCHES,
        created: true,
        canceled: true,
        cancelReason: reason,
      });
    const key = request.key.length === 0 ? FIRST_KEY : request.key;
    const { rangeEnd } = request;
    if (rangeEnd.length > 0 && !isToTheEnd(rangeEnd) && compareBytes(key, rangeEnd) >= 0) {
      return refuse("mvcc: watcher range is empty");
    }
    if (request.watchId !== 0n && this.#watches.has(request.watchId)) {
      return refuse("mvcc: duplicate watch ID provided on the WatchStream");
    }
    if (this.#watches.size >= this.#deps.maxWatches) return refuse(TOO_MANY_REQUESTS);
    const stop = new AbortController();
    const startRevision = request.startRevision === 0n ? revision + 1 : Number(request.startRevision);
    let watching: Watching;
    try {
      const { prevKv } = request;
      watching = store.watch({ key, ...endOf(rangeEnd), startRevision, prevKv, signal: stop.signal });
    } catch (err) {
      if (!isAppError(err, "access.denied")) throw err;
      return refuse(`rpc error: code = PermissionDenied desc = ${PERMISSION_DENIED}`);
    }
    const id = request.watchId === 0n ? this.#freeId() : request.watchId;
    const watch = { id, startRevision, watching, stop, request, spoke: false, notify: false };
    this.#watches.set(id, watch);
    const told = this.#outbox.put({ header: this.#header(revision), watchId: id, created: true });
    if (request.progressNotify) this.#planNotify();
    void this.#pump(watch).catch((err: unknown) => this.#outbox.end(toEtcd(err)));
    return told;
  }

  async #cancel(id: bigint): Promise<void> {
    const watch = this.#watches.get(id);
    if (watch === undefined) return;
    this.#forget(watch);
    const revision = await this.#deps.store.revision();
    await this.#outbox.put({ header: this.#header(revision), watchId: id, canceled: true });
  }

  async #pump(watch: OpenWatch): Promise<void> {
    for await (const batch of watch.watching) {
      if (watch.stop.signal.aborted) return;
      switch (batch.type) {
        case "ready":
          break;
        case "events": {
          const events = batch.events.filter((event) => wanted(event, watch.request.filters));
          if (events.length === 0) break;
          watch.spoke = true;
          await this.#send(watch, {
            header: this.#header(batch.revision),
            watchId: watch.id,
            events: events.map(toEvent),
          });
          break;
        }
        case "progress":
          this.#progress(watch, batch.revision);
          break;
        case "gap":
          this.#forget(watch);
          this.#outbox.add({
            header: this.#header(0),
            watchId: watch.id,
            canceled: true,
            compactRevision: BigInt(batch.compactRevision),
          });
          return;
      }
    }
  }

  async #send(watch: OpenWatch, answer: WatchAnswer): Promise<void> {
    if (!watch.request.fragment) return this.#outbox.put(answer);
    for (const part of fragments(answer)) await this.#outbox.put(part);
  }

  /** The watch has told all up to `revision`: whoever asked is answered, after those events. */
  #progress(watch: OpenWatch, revision: number): void {
    if (watch.notify) {
      watch.notify = false;
      if (revision + 1 >= watch.startRevision) {
        this.#outbox.add({ header: this.#header(revision), watchId: watch.id });
      }
    }
    if (this.#asked?.waiting.delete(watch) !== true) return;
    // A watch that begins later has nothing to say about now.
    this.#asked.revision = revision + 1 < watch.startRevision ? -1 : Math.min(this.#asked.revision, revision);
    this.#settle();
  }

  #askAll(): void {
    if (this.#watches.size === 0) return;
    if (this.#asked !== undefined) {
      this.#asked.again = true;
      return;
    }
    this.#asked = { waiting: new Set(this.#watches.values()), revision: Infinity, again: false };
    for (const { watching } of this.#asked.waiting) watching.requestProgress();
  }

  #settle(): void {
    const asked = this.#asked;
    if (asked === undefined || asked.waiting.size > 0) return;
    this.#asked = undefined;
    if (asked.revision >= 0 && asked.revision !== Infinity) {
      this.#outbox.add({ header: this.#header(asked.revision), watchId: ALL_WATCHES });
    }
    if (asked.again) this.#askAll();
  }

  #planNotify(): void {
    if (this.#cancelNotify !== undefined) return;
    this.#cancelNotify = this.#deps.clock.after(this.#deps.progressNotifyMs, () => {
      this.#cancelNotify = undefined;
      for (const watch of this.#watches.values()) {
        if (!watch.request.progressNotify) continue;
        this.#planNotify();
        if (!watch.spoke) {
          watch.notify = true;
          watch.watching.requestProgress();
        }
        watch.spoke = false;
      }
    });
  }

  #forget(watch: OpenWatch): void {
    this.#watches.delete(watch.id);
    watch.stop.abort();
    this.#asked?.waiting.delete(watch);
    this.#settle();
  }

  #freeId(): bigint {
    while (this.#watches.has(this.#nextId)) this.#nextId += 1n;
    return this.#nextId++;
  }

  #header(revision: number): ReturnType<typeof headerOf> {
    return headerOf(this.#deps.member, revision);
  }
}

function bytesOf({ events = [] }: WatchAnswer): number {
  let bytes = 0;
  for (const { kv, prevKv } of events) bytes += (kv?.value?.length ?? 0) + (prevKv?.value?.length ?? 0);
  return bytes;
}

function wanted(event: StoreEvent, filters: readonly number[]): boolean {
  return !filters.includes(event.type === "put" ? NO_PUT : NO_DELETE);
}

function toEvent({ type, kv, prevKv }: StoreEvent): NonNullable<WatchAnswer["events"]>[number] {
  return { type: type === "delete" ? 1 : 0, kv: toKeyValue(kv), ...previous(prevKv) };
}
