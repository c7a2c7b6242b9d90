// What is secret of storages, each sealed with the master key, apart from their definitions. No agent reads the records: a
// node asks for what it needs to mount a storage that is its own to have.
import { AppError } from "@gpve/contracts/errors.ts";
import type { Sealer } from "@gpve/domain/access/ports.ts";
import { servesNode, storageCollection } from "@gpve/domain/storage/definition.ts";
import type { Records, Tx } from "@gpve/store/records/port.ts";
import { storageSecretsDef } from "../access/secret-collections.ts";

export type StorageSecretValues = Readonly<Record<string, string>>;

export class StorageSecrets {
  readonly #records: Records;
  readonly #sealer: Sealer;

  constructor(records: Records, sealer: Sealer) {
    this.#records = records;
    this.#sealer = sealer;
  }

  put(tx: Tx, storage: string, values: StorageSecretValues): void {
    for (const [name, value] of Object.entries(values))
      tx.put(storageSecretsDef, idOf(storage, name), {
        sealed: this.#sealer.seal(value, contextOf(storage, name)),
      });
  }

  remove(tx: Tx, storage: string, names?: readonly string[]): void {
    const isMeant = (id: string): boolean =>
      names === undefined ? id.startsWith(`${storage}/`) : names.some((name) => id === idOf(storage, name));
    for (const { id } of tx.list(storageSecretsDef)) if (isMeant(id)) tx.delete(storageSecretsDef, id);
  }

  /** For a node; undefined = there is none. */
  forNode(node: string, storage: string, name: string): string | undefined {
    const definition = this.#records.collection(storageCollection).get(storage)?.value;
    if (definition === undefined || !servesNode(definition, node))
      throw new AppError("access.denied", `storage '${storage}' is not one of node ${node}'s`);
    const found = this.#records.collection(storageSecretsDef).get(idOf(storage, name))?.value;
    return found === undefined ? undefined : this.#sealer.open(found.sealed, contextOf(storage, name));
  }
}

function idOf(storage: string, name: string): string {
  return `${storage}/${name}`;
}

function contextOf(storage: string, name: string): string {
  return `storage/${idOf(storage, name)}`;
}
