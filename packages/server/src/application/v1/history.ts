// Objects as they were at a revision, read from the store itself.
import type { V1Object } from "@gpve/contracts/v1/object.ts";
import type { Store } from "@gpve/store/port.ts";
import type { CollectionDef, Entry } from "@gpve/store/records/port.ts";
import { idOf, type KindAdapter, type Reader } from "./adapter.ts";
import { metaCollection, projectObject, readMeta } from "./object-meta.ts";

/** Throws store.compacted when the revision is gone. */
export type ObjectsAt = (
  adapter: KindAdapter,
  revision: number,
  signal: AbortSignal,
) => Promise<readonly V1Object[]>;

export function objectsFromHistory(store: Pick<Store, "range">): ObjectsAt {
  return async (adapter, revision, signal) => {
    const read = new Map<CollectionDef<unknown>, readonly Entry<unknown>[]>();
    for (const collection of [...adapter.collections, metaCollection as CollectionDef<unknown>]) {
      read.set(collection, await readCollection(store, collection, revision, signal));
    }
    const reader: Reader = {
      list: <T>(collection: CollectionDef<T>) =>
        (read.get(collection as CollectionDef<unknown>) ?? []) as readonly Entry<T>[],
      get: <T>(collection: CollectionDef<T>, id: string) =>
        read.get(collection as CollectionDef<unknown>)?.find((entry) => entry.id === id) as
          | Entry<T>
          | undefined,
    };
    const { kind } = adapter.kind;
    return adapter.list(reader).map((raw) => projectObject(kind, raw, readMeta(reader, kind, idOf(raw))));
  };
}

async function readCollection(
  store: Pick<Store, "range">,
  collection: CollectionDef<unknown>,
  revision: number,
  signal: AbortSignal,
): Promise<readonly Entry<unknown>[]> {
  const key = Buffer.from(collection.prefix);
  // A prefix ends with "/", so the next byte ends its range.
  const end = Buffer.from(key);
  end[end.length - 1] = (end.at(-1) ?? 0) + 1;
  const { kvs } = await store.range({ key, end, revision }, { signal });
  return kvs.map((kv) => ({
    id: Buffer.from(kv.key).toString("utf8").slice(collection.prefix.length),
    value: collection.decode(JSON.parse(Buffer.from(kv.value).toString("utf8"))),
    createRevision: kv.createRevision,
    revision: kv.modRevision,
    version: kv.version,
  }));
}
