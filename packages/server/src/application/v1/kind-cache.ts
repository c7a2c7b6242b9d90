// All objects of one kind as clients see them, kept current by the records' changes, and the last few thousand
// changes, so that a watch can be resumed and a slow watcher costs no memory of its own.
import { AppError } from "@gpve/contracts/errors.ts";
import type { V1Object } from "@gpve/contracts/v1/object.ts";
import type { Records } from "@gpve/store/records/port.ts";
import { byName, cacheReader, idFor, idOf } from "./adapter.ts";
import type { KindAdapter, ObjectName, Reader } from "./adapter.ts";
import { sameJson } from "./merge-patch.ts";
import { metaCollection, idOfMetaId, projectObject, readMeta } from "./object-meta.ts";

export interface ObjectChange {
  /** The store's revision when it happened. Several changes may share one. */
  readonly revision: number;
  readonly before: V1Object | undefined;
  readonly after: V1Object | undefined;
}

export class KindCache {
  readonly adapter: KindAdapter;
  readonly #records: Records;
  readonly #reader: Reader;
  readonly #capacity: number;
  readonly #objects = new Map<string, V1Object>();
  readonly #listeners = new Set<() => void>();
  readonly #unsubscribe: readonly (() => void)[];
  #sorted: readonly V1Object[] | undefined;
  /** What all of them were looked at by last. */
  #live: unknown;
  #changes: ObjectChange[] = [];
  /** Position of #changes[0] among all changes ever. */
  #first = 0;
  /** Changes up to this revision are no longer (or never were) here. */
  #floor: number;

  constructor(adapter: KindAdapter, records: Records, capacity = 4096) {
    this.adapter = adapter;
    this.#records = records;
    this.#reader = cacheReader(records);
    this.#capacity = capacity;
    const { kind } = adapter.kind;
    this.#unsubscribe = [
      adapter.onChange(records, (ids) => ids.forEach((id) => this.#update(id))),
      records.collection(metaCollection).onChange((id) => {
        const own = idOfMetaId(kind, id);
        if (own !== undefined) this.#update(own);
      }),
    ];
    for (const raw of adapter.list(this.#reader)) {
      this.#objects.set(idOf(raw), projectObject(kind, raw, readMeta(this.#reader, kind, idOf(raw))));
    }
    this.#floor = records.revision();
  }

  close(): void {
    for (const unsubscribe of this.#unsubscribe) unsubscribe();
    this.#listeners.clear();
  }

  /** Sorted by name. Shared: never mutate. */
  list(): readonly V1Object[] {
    this.refresh();
    this.#sorted ??= [...this.#objects.values()].toSorted((a, b) => byName(a.metadata, b.metadata));
    return this.#sorted;
  }

  get(id: string): V1Object | undefined {
    if (this.adapter.kind.liveStatus === true) this.#update(id);
    return this.#objects.get(id);
  }

  /** Ids of all that are called so, in whatever tenant. */
  idsNamed(name: string): readonly string[] {
    return [...this.#objects].flatMap(([id, { metadata }]) => (metadata.name === name ? id : []));
  }

  /** The id that one has, or would have. */
  idFor(wanted: ObjectName): string {
    return idFor(this.adapter, this.#reader, wanted);
  }

  /** Takes in what changed without a write to the store. */
  refresh(): void {
    if (this.adapter.kind.liveStatus !== true) return;
    const live = this.adapter.liveState?.();
    if (live !== undefined && live === this.#live) return;
    const found = new Map(this.adapter.list(this.#reader).map((raw) => [idOf(raw), raw]));
    for (const id of new Set([...this.#objects.keys(), ...found.keys()])) this.#update(id, found.get(id));
    this.#live = live;
  }

  /** Where the next change will be. */
  end(): number {
    return this.#first + this.#changes.length;
  }

  /** Whether every change after `revision` is still here. */
  remembers(revision: number): boolean {
    return revision >= this.#floor && revision <= this.#records.revision();
  }

  /** Position of the first change after `revision`. Throws store.compacted when some of them are gone. */
  positionAfter(revision: number): number {
    if (!this.remembers(revision)) throw gap(revision);
    const at = this.#changes.findIndex((change) => change.revision > revision);
    return at === -1 ? this.end() : this.#first + at;
  }

  /** undefined = nothing there yet. Throws store.compacted when it has been dropped. */
  changeAt(position: number): ObjectChange | undefined {
    if (position < this.#first) throw gap(this.#floor);
    return this.#changes[position - this.#first];
  }

  /** Calls back after changes. Returns the unsubscribe. */
  onChange(listener: () => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  #update(id: string, raw = this.adapter.get(this.#reader, id)): void {
    const { kind } = this.adapter.kind;
    const before = this.#objects.get(id);
    const after = raw === undefined ? undefined : projectObject(kind, raw, readMeta(this.#reader, kind, id));
    if (sameJson(before, after)) return;
    if (after === undefined) this.#objects.delete(id);
    else this.#objects.set(id, after);
    this.#sorted = undefined;
    const newest = this.#changes.at(-1)?.revision ?? 0;
    const revision = Math.max(newest, this.#records.revision(), Number(after?.metadata.resourceVersion ?? 0));
    this.#changes.push({ revision, before, after });
    if (this.#changes.length > this.#capacity) this.#drop();
    for (const listener of this.#listeners) listener();
  }

  /** Half at once, so that a busy kind does not shift a long array with every change. */
  #drop(): void {
    const dropped = this.#changes.splice(0, Math.ceil(this.#capacity / 2));
    this.#first += dropped.length;
    this.#floor = dropped.at(-1)?.revision ?? this.#floor;
  }
}

function gap(revision: number): AppError {
  return new AppError(
    "store.compacted",
    `changes after resourceVersion ${revision} are not known here any more; list again and watch from there`,
    { data: { resourceVersion: String(revision) } },
  );
}
