// The cluster's storage definitions: create, change, remove, show.
import { given } from "@gpve/contracts/given.ts";
import { alreadyThere, conflict, missing } from "@gpve/domain/request/failures.ts";
import { createHash } from "node:crypto";
import { mappedDirectories } from "@gpve/domain/mapping/mapped-directories.ts";
import { mappingCollection, type Mapping } from "@gpve/domain/mapping/mapping.ts";
import type { RequestContext } from "@gpve/domain/request/context.ts";
import {
  changedStorageDefinition,
  contentDirs,
  contentText,
  defaultStorage,
  isDisabled,
  isShared,
  newStorageDefinition,
  secretsOf,
  servesNode,
  splitStorageList,
  storageCollection,
  type StorageDefinition,
  type StorageOptionValue,
} from "@gpve/domain/storage/definition.ts";
import { refuseClaimedStorage, storageFolders } from "@gpve/domain/storage/protected-paths.ts";
import { canonicalJson } from "@gpve/contracts/canonical-json.ts";
import { STORAGE_SEEN_WITH } from "@gpve/domain/storage/seen-with.ts";
import type { Entry, Records } from "@gpve/store/records/port.ts";
import { prefixed } from "../access/prefixed.ts";
import type { StorageListing } from "../cluster/resource-rows.ts";
import { removeStorageAccess } from "../pool/pools.ts";
import type { StorageSecrets, StorageSecretValues } from "./storage-secrets.ts";

export type StorageOptions = Readonly<Record<string, StorageOptionValue | undefined>>;

export class StorageDefinitions {
  readonly #records: Records;
  readonly #dataDir: string;
  readonly #secrets: StorageSecrets | undefined;
  #listing: { from: readonly Entry<StorageDefinition>[]; rows: readonly StorageListing[] } | undefined;

  constructor(records: Records, dataDir = "/var/lib/gpve", secrets?: StorageSecrets) {
    this.#records = records;
    this.#dataDir = dataDir;
    this.#secrets = secrets;
  }

  /** A cluster without any storage gets `local`. */
  async ensureDefault(path: string): Promise<void> {
    await this.#records.transact((tx) => {
      if (tx.list(storageCollection).length > 0) return;
      tx.put(storageCollection, "local", defaultStorage(path));
    });
  }

  /** As stored; the same object for the same definition. */
  definitions(): readonly StorageDefinition[] {
    return this.#entries().map(({ value }) => value);
  }

  list(ctx: RequestContext, type: string | undefined): Record<string, unknown>[] {
    const digest = this.digest();
    return this.#entries()
      .filter(({ id, value }) => {
        if (type !== undefined && value.type !== type) return false;
        return ctx.access.has(`/storage/${id}`, STORAGE_SEEN_WITH, "any");
      })
      .map(({ value }) => shown(value, digest));
  }

  get(storage: string): Record<string, unknown> {
    const entry = this.#records.collection(storageCollection).get(storage);
    if (entry === undefined) throw noSuchStorage(storage);
    return shown(entry.value, this.digest());
  }

  async create(
    storage: string,
    type: string,
    options: StorageOptions,
    /** Throws when the storage cannot be used. */
    attempt: (definition: StorageDefinition, secrets: StorageSecretValues) => Promise<void> = () =>
      Promise.resolve(),
    /** The request, where it has a name. */
    madeBy?: string,
  ): Promise<{ storage: string; type: string }> {
    // What is wrong with the options themselves is said as it is: nothing was tried yet.
    const definition = newStorageDefinition(storage, type, givenOptions(options));
    const secrets = secretsOf(type, options);
    return prefixed("create storage failed", async () => {
      requireUndefined(storage, this.#records.collection(storageCollection).get(storage));
      this.#refuseClaimed(definition, this.definitions(), this.#records.collection(mappingCollection).list());
      await attempt(definition, secrets);
      return this.#records.transact((tx) => {
        requireUndefined(storage, tx.get(storageCollection, storage));
        this.#refuseClaimed(definition, tx.list(storageCollection).map(valueOf), tx.list(mappingCollection));
        tx.put(storageCollection, storage, { ...definition, ...given({ madeBy }) });
        this.#secrets?.put(tx, storage, secrets);
        return { storage, type };
      });
    });
  }

  update(
    storage: string,
    change: {
      readonly set: StorageOptions;
      readonly delete: string | undefined;
      readonly digest: string | undefined;
    },
    /** Throws when the storage would be in a place that is not its own. */
    attempt: (definition: StorageDefinition) => Promise<void> = () => Promise.resolve(),
  ): Promise<{ storage: string; type: string }> {
    const changed = (before: StorageDefinition): StorageDefinition =>
      changedStorageDefinition(before, givenOptions(change.set), splitStorageList(change.delete));
    return prefixed("update storage failed", async () => {
      const known = this.#records.collection(storageCollection).get(storage)?.value;
      if (known !== undefined && isElsewhere(known, changed(known))) await attempt(changed(known));
      return this.#records.transact((tx) => {
        const entries = tx.list(storageCollection);
        if (change.digest !== undefined && change.digest !== digestOf(entries)) {
          throw conflict("detected modified configuration - file changed by other user? Try again.");
        }
        const before = tx.get(storageCollection, storage)?.value;
        if (before === undefined) throw noSuchStorage(storage);
        const after = changed(before);
        // What was there before may be worse, and must still be possible to switch off.
        if (isElsewhere(before, after))
          this.#refuseClaimed(after, entries.map(valueOf), tx.list(mappingCollection));
        tx.put(storageCollection, storage, after);
        this.#secrets?.remove(tx, storage, splitStorageList(change.delete));
        this.#secrets?.put(tx, storage, secretsOf(before.type, change.set));
        return { storage, type: before.type };
      });
    });
  }

  #refuseClaimed(
    definition: StorageDefinition,
    storages: readonly StorageDefinition[],
    mappings: readonly { readonly value: Mapping }[],
  ): void {
    const mapped = mappedDirectories(
      mappings.map(({ value }) => value),
      (node) => servesNode(definition, node),
    );
    refuseClaimedStorage(definition, this.#dataDir, storages, mapped);
  }

  /** The files stay; only the definition and the rights on it go. */
  remove(storage: string): Promise<void> {
    return prefixed("delete storage failed", () =>
      this.#records.transact((tx) => {
        if (tx.get(storageCollection, storage) === undefined) throw noSuchStorage(storage);
        tx.delete(storageCollection, storage);
        removeStorageAccess(tx, storage);
        this.#secrets?.remove(tx, storage);
      }),
    );
  }

  /** Enabled storages for lists of resources; the same array until something changes. */
  listing(): readonly StorageListing[] {
    const from = this.#entries();
    if (this.#listing?.from !== from)
      this.#listing = { from, rows: from.flatMap(({ value }) => listed(value)) };
    return this.#listing.rows;
  }

  digest(): string {
    return digestOf(this.#entries());
  }

  #entries(): readonly Entry<StorageDefinition>[] {
    return this.#records.collection(storageCollection).list();
  }
}

function valueOf({ value }: { readonly value: StorageDefinition }): StorageDefinition {
  return value;
}

/** Whether a change gives a storage other folders, or other nodes. */
function isElsewhere(before: StorageDefinition, after: StorageDefinition): boolean {
  const place = (each: StorageDefinition): string =>
    canonicalJson([storageFolders(each), each.options["nodes"] ?? ""]);
  return place(before) !== place(after);
}

function listed(definition: StorageDefinition): StorageListing[] {
  if (isDisabled(definition)) return [];
  const nodes = splitStorageList(String(definition.options["nodes"] ?? ""));
  return [
    {
      storage: definition.storage,
      type: definition.type,
      content: contentText(definition),
      shared: isShared(definition),
      ...(nodes.length === 0 ? {} : { nodes }),
    },
  ];
}

/** Directories of content types are shown one by one, all else as it is kept. */
function shown(definition: StorageDefinition, digest: string): Record<string, unknown> {
  const { storage, type, options } = definition;
  const directories =
    options["content-dirs"] === undefined ? {} : { "content-dirs": contentDirs(definition) };
  return { ...options, ...directories, storage, type, digest };
}

function digestOf(entries: readonly Entry<StorageDefinition>[]): string {
  const text = canonicalJson(entries.map(({ value }) => value));
  return createHash("sha1").update(text).digest("hex");
}

function givenOptions(options: StorageOptions): Record<string, StorageOptionValue> {
  return Object.fromEntries(
    Object.entries(options).filter((pair): pair is [string, StorageOptionValue] => pair[1] !== undefined),
  );
}

function requireUndefined(storage: string, found: unknown): void {
  if (found !== undefined) throw alreadyThere(`storage ID '${storage}' already defined`);
}

function noSuchStorage(storage: string): Error {
  return missing(`storage '${storage}' does not exist`);
}
