// A watch: all objects first (or the changes since a version), then every change, as the watcher may see it.
//
// The watcher pulls. It has a position in the kind's changes and no queue of its own: one that is too slow finds
// its position gone and is told so. Permission is judged anew whenever who-may-what changed.
import { AppError } from "@gpve/contracts/errors.ts";
import type { ObjectEventType, V1Object } from "@gpve/contracts/v1/object.ts";
import type { AccessView, RequestContext } from "@gpve/domain/request/context.ts";
import type { Clock } from "@gpve/kit/clock.ts";
import type { Records } from "@gpve/store/records/port.ts";
import { mayDo } from "./authorisation.ts";
import type { KindCache } from "./kind-cache.ts";
import { permissionOf, selected } from "./object-service.ts";
import type { Selection } from "./object-service.ts";

export const HEARTBEAT_MS = 15_000;
const LIVE_STATUS_MS = 2_000;

export type WatchItem =
  | {
      readonly type: ObjectEventType;
      readonly object: V1Object;
      readonly id: string;
    }
  | { readonly type: "BOOKMARK"; readonly id: string }
  | { readonly type: "HEARTBEAT" };

export interface WatchDeps {
  readonly records: Records;
  readonly clock: Clock;
  readonly cache: KindCache;
  /** The objects as they were, for watchers that know more than this server's memory. Throws store.compacted. */
  readonly past: (revision: number, signal: AbortSignal) => Promise<readonly V1Object[]>;
  /** Grows whenever users, groups, roles, bindings or tenants change. */
  readonly accessEpoch: () => number;
  /** Calls back when accessEpoch has grown. Returns the unsubscribe. */
  readonly onAccessChange: (listener: () => void) => () => void;
  /** Throws when the credentials no longer hold; else what the actor may do now. */
  readonly revalidate: () => Promise<AccessView>;
}

export interface ObjectWatch {
  readonly selection: Selection;
  /** Absent: all objects first. */
  readonly from?: number;
  readonly ctx: RequestContext;
}

/** Ends by the signal; throws store.compacted on a gap, auth.* and access.denied when the right to watch is lost. */
export async function* watchObjects(deps: WatchDeps, request: ObjectWatch): AsyncGenerator<WatchItem> {
  const { cache, records, clock } = deps;
  const { ctx, selection } = request;
  const permission = permissionOf(cache.adapter, "watch");
  let { access } = ctx;
  const sees = (object: V1Object | undefined, view: AccessView = access): object is V1Object =>
    object !== undefined &&
    selected(object, selection) &&
    mayDo(permission, { actor: ctx.actor, access: view }, { current: object });

  await records.fresh({ signal: ctx.signal });
  let epoch = deps.accessEpoch();
  let position: number;
  let id: string;
  if (request.from === undefined) {
    const objects = cache.list().filter((object) => sees(object));
    position = cache.end();
    id = String(records.revision());
    // Until all are told, there is no version to resume from but the beginning.
    for (const object of objects) yield { type: "ADDED", object, id: "0" };
    yield { type: "BOOKMARK", id };
  } else if (!cache.remembers(request.from) && request.from <= records.revision()) {
    // Another server's watcher, or one from before a restart: tell the difference between then and now.
    const { namesInTenant } = cache.adapter.kind;
    const byKey = (objects: readonly V1Object[]) =>
      new Map(
        objects.map((object) => {
          const { name, namespace } = object.metadata;
          return [namesInTenant === true ? `${namespace}\0${name}` : name, object];
        }),
      );
    const before = byKey(await deps.past(request.from, ctx.signal));
    const now = byKey(cache.list());
    position = cache.end();
    id = String(records.revision());
    yield { type: "HEARTBEAT" };
    for (const key of new Set([...before.keys(), ...now.keys()])) {
      const [then, after] = [before.get(key), now.get(key)];
      if (then?.metadata.resourceVersion === after?.metadata.resourceVersion) continue;
      const item = transition(then, after, sees);
      // Until all is told, the old version is the one to resume from.
      if (item !== undefined) yield { ...item, id: String(request.from) };
    }
    yield { type: "BOOKMARK", id };
  } else {
    position = cache.positionAfter(request.from);
    id = String(request.from);
    // Tells the client that it is connected, before anything happens.
    yield { type: "HEARTBEAT" };
    if (cache.adapter.kind.liveStatus === true) {
      // Live figures have no version to resume from: tell all of them once.
      for (const object of cache.list()) if (sees(object)) yield { type: "MODIFIED", object, id };
    }
  }

  const waker = new Waker(deps, ctx.signal);
  try {
    let nextHeartbeat = clock.now() + HEARTBEAT_MS;
    while (!ctx.signal.aborted) {
      for (let change = cache.changeAt(position); change !== undefined; change = cache.changeAt(position)) {
        position++;
        // Only the last change of a revision completes it; a client that stops before must get it all again.
        if (cache.changeAt(position)?.revision !== change.revision) id = String(change.revision);
        const item = transition(change.before, change.after, sees);
        if (item !== undefined) yield { ...item, id };
        if (ctx.signal.aborted) return;
      }
      if (epoch !== deps.accessEpoch()) {
        epoch = deps.accessEpoch();
        const before = access;
        access = await deps.revalidate();
        yield* accessChanges(
          cache.list(),
          (object) => sees(object, before),
          (object) => sees(object),
          id,
        );
      }
      if (clock.now() >= nextHeartbeat) {
        nextHeartbeat = clock.now() + HEARTBEAT_MS;
        access = await deps.revalidate();
        yield { type: "HEARTBEAT" };
        const now = String(records.revision());
        if (cache.changeAt(position) === undefined && now !== id) {
          id = now;
          yield { type: "BOOKMARK", id };
        }
      }
      if (cache.changeAt(position) === undefined && epoch === deps.accessEpoch()) {
        await waker.wait(Math.max(0, nextHeartbeat - clock.now()));
        cache.refresh();
      }
    }
  } finally {
    waker.close();
  }
}

function transition(
  before: V1Object | undefined,
  after: V1Object | undefined,
  sees: (object: V1Object | undefined) => object is V1Object,
): { readonly type: "ADDED" | "MODIFIED" | "DELETED"; readonly object: V1Object } | undefined {
  if (sees(after)) return { type: sees(before) ? "MODIFIED" : "ADDED", object: after };
  return sees(before) ? { type: "DELETED", object: before } : undefined;
}

function* accessChanges(
  objects: readonly V1Object[],
  saw: (object: V1Object) => boolean,
  sees: (object: V1Object) => boolean,
  id: string,
): Generator<WatchItem> {
  const seenBefore = objects.filter(saw);
  const seenNow = new Set(objects.filter(sees));
  if (seenBefore.length > 0 && seenNow.size === 0) {
    throw new AppError("access.denied", "the permission to watch these objects was taken away");
  }
  for (const object of seenBefore) if (!seenNow.has(object)) yield { type: "DELETED", object, id };
  const known = new Set(seenBefore);
  for (const object of seenNow) if (!known.has(object)) yield { type: "ADDED", object, id };
}

/** Waits for a change, a time, or the end. */
class Waker {
  readonly #deps: WatchDeps;
  readonly #unsubscribe: readonly (() => void)[];
  readonly #signal: AbortSignal;
  #wake: () => void = () => undefined;
  #pending = false;

  constructor(deps: WatchDeps, signal: AbortSignal) {
    this.#deps = deps;
    this.#signal = signal;
    const wake = (): void => {
      this.#pending = true;
      this.#wake();
    };
    signal.addEventListener("abort", wake);
    this.#unsubscribe = [
      deps.cache.onChange(wake),
      deps.onAccessChange(wake),
      () => signal.removeEventListener("abort", wake),
    ];
  }

  async wait(ms: number): Promise<void> {
    if (this.#pending || this.#signal.aborted) {
      this.#pending = false;
      return;
    }
    const live = this.#deps.cache.adapter.kind.liveStatus === true;
    await new Promise<void>((resolve) => {
      const cancel = this.#deps.clock.after(live ? Math.min(ms, LIVE_STATUS_MS) : ms, resolve);
      this.#wake = () => {
        cancel();
        resolve();
      };
    });
    this.#pending = false;
    this.#wake = () => undefined;
  }

  close(): void {
    for (const unsubscribe of this.#unsubscribe) unsubscribe();
  }
}
