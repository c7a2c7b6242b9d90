// Storages that nodes name in their configuration files (`storage.plugins`). A node can declare what it has itself and
// nothing for others: the definition holds for that node, or for the nodes that declare the very same.
import { messageOf } from "@gpve/contracts/errors.ts";
import type { NodeView } from "@gpve/domain/node/runtime.ts";
import {
  newStorageDefinition,
  splitStorageList,
  storageCollection,
  type StorageDefinition,
} from "@gpve/domain/storage/definition.ts";
import { background } from "@gpve/kit/background.ts";
import { canonicalJson } from "@gpve/contracts/canonical-json.ts";
import type { Logger } from "@gpve/kit/logger.ts";
import type { Records } from "@gpve/store/records/port.ts";
import type { StorageDefinitions } from "./storage-definitions.ts";

interface DeclaredStoragesDeps {
  readonly records: Records;
  readonly storages: StorageDefinitions;
  readonly board: {
    list(): readonly NodeView[];
    onChange(listener: () => void): () => void;
  };
  readonly log: Logger;
}

/** Defines them as nodes report, until the returned function is called. */
export function keepDeclaredStorages(deps: DeclaredStoragesDeps): () => void {
  const done = new Map<string, string>();
  let work = Promise.resolve();
  const look = (): void => {
    for (const { node, report } of deps.board.list()) {
      for (const declared of report?.declaredStorages ?? []) {
        const key = `${node}/${declared.storage}`;
        const text = canonicalJson(declared);
        if (done.get(key) === text) continue;
        done.set(key, text);
        work = work
          .then(() => defineFor(deps, node, declared))
          .catch((err: unknown) => {
            deps.log.warn(
              { node, storage: declared.storage, err: messageOf(err) },
              `storage.plugins: storage '${declared.storage}' of node ${node} was not defined`,
            );
          });
        background(deps.log, "storages of nodes", work);
      }
    }
  };
  const stop = deps.board.onChange(look);
  look();
  return stop;
}

/** Throws what stands in the way. */
export async function defineFor(
  { records, storages }: Pick<DeclaredStoragesDeps, "records" | "storages">,
  node: string,
  declared: StorageDefinition,
): Promise<void> {
  const { storage, type } = declared;
  const { nodes: _nodes, shared: _shared, ...options } = declared.options;
  const known = records.collection(storageCollection).get(storage)?.value;
  if (known === undefined) {
    await storages.create(storage, type, { ...options, nodes: node });
    return;
  }
  const wanted = newStorageDefinition(storage, type, options);
  const { nodes, ...place } = known.options;
  if (known.type !== type || canonicalJson(place) !== canonicalJson(wanted.options))
    throw new Error(
      `the cluster has a storage of that name which is not the same: it is ${known.type} with ${canonicalJson(place)}; choose another name, or the same settings`,
    );
  const served = splitStorageList(typeof nodes === "string" ? nodes : "");
  if (served.length === 0 || served.includes(node)) return;
  const set = { nodes: [...served, node].toSorted().join(",") };
  await storages.update(storage, { set, delete: undefined, digest: undefined });
}
