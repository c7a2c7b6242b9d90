// Between a kind's declaration and the records it is a view on. The same code reads the cache, a transaction,
// a plan that is never committed and the past, because it sees only a Reader.
import type { Fields } from "@gpve/contracts/json-object.ts";
import type { KindDeclaration } from "@gpve/contracts/v1/kind.ts";
import type { RequestContext } from "@gpve/domain/request/context.ts";
import type { CollectionDef, Entry, Records, Tx } from "@gpve/store/records/port.ts";

export interface Reader {
  get<T>(collection: CollectionDef<T>, id: string): Entry<T> | undefined;
  list<T>(collection: CollectionDef<T>): readonly Entry<T>[];
}

/** An object as its records have it, before labels and the like are added. */
export interface RawObject {
  readonly name: string;
  /** By which its adapter finds it; absent: by its name. */
  readonly id?: string;
  /** The tenant, where it is in one. */
  readonly namespace?: string;
  readonly spec: Fields;
  readonly status: Fields;
  /** Newest revision of the records behind it; 0 = not in the store (shipped with the product). */
  readonly revision: number;
  readonly createRevision: number;
  readonly generation: number;
  /** Milliseconds since the epoch, where the records know it. */
  readonly createdAt?: number;
  /** For objects made of several records: what else must be equal for the version to be. */
  readonly versionSuffix?: string;
  /** The request that had it made, where the records know it. */
  readonly madeBy?: string;
  /** What a node compares before it changes what was judged. */
  readonly digest?: () => string;
  /** Where the records themselves keep the labels. */
  readonly labels?: Readonly<Record<string, string>>;
}

/** What an object is called, as its metadata has it. */
export interface ObjectName {
  readonly name: string;
  readonly namespace?: string | undefined;
}

export interface WriteCommand {
  readonly name: string;
  /** metadata.namespace, where it is said. */
  readonly namespace?: string | undefined;
  readonly spec: Fields;
  readonly previous: RawObject | undefined;
  readonly labels: Readonly<Record<string, string>>;
  readonly ctx: RequestContext;
}

export interface RemoveCommand extends Omit<WriteCommand, "spec" | "labels" | "namespace"> {
  /** In spite of what else would speak against it, where the kind knows such a thing. */
  readonly force: boolean;
}

export interface KindAdapter {
  readonly kind: KindDeclaration;
  /** Everything `list` and `get` read, for reading the past. */
  readonly collections: readonly CollectionDef<unknown>[];
  /** Sorted by name, byte order. */
  list(reader: Reader): readonly RawObject[];
  get(reader: Reader, id: string): RawObject | undefined;
  /** Where names are unique in their tenant only: the id that one has, or would have. Absent: the name is the id. */
  idFor?(reader: Reader, wanted: ObjectName): string;
  /** Calls back with the ids of objects whose records changed. Returns the unsubscribe. */
  onChange(records: Records, changed: (ids: readonly string[]) => void): () => void;
  /** Of a kind with a live status: as long as this is the same and no record has changed, so is every status. Absent: nobody
   * knows, and all of them are looked at whenever one is asked for. */
  liveState?(): unknown;
  /** Absent: nobody writes this kind through /api/v1. Both throw AppError when the rules of the kind say no. */
  readonly write?: {
    /** Labels are a field of the records, not kept beside them. */
    readonly ownsLabels?: boolean;
    put(tx: Tx, command: WriteCommand): void;
    remove(tx: Tx, command: RemoveCommand): void;
    /** A merge patch of a spec, where RFC 7396 alone would not do. */
    patch?(current: Fields, patch: Fields): Fields;
  };
  /** In place of `write`. */
  readonly act?: KindActions;
}

export interface ActCommand {
  readonly name: string;
  /** metadata.namespace, where it is said. */
  readonly namespace?: string | undefined;
  /** metadata.labels, where they are said. */
  readonly labels?: Readonly<Record<string, string>> | undefined;
  readonly spec: Fields;
  readonly ctx: RequestContext;
}

/** For kinds whose objects are changed by work on a node. Each resolves when the work is done, and throws its error. */
export interface KindActions {
  /** Paths of fields that no plan shows, "spec.config.cipassword". */
  readonly secrets: ReadonlySet<string>;
  /** The spec that applying `spec` leads to; throws when it cannot. Equal to what is there: nothing to do. */
  settle(reader: Reader, command: ActCommand): Fields;
  /** The parts of a spec that can change one without the other; default: its fields. */
  readonly parts?: (spec: Fields) => Fields;
  /** A merge patch of a spec, where RFC 7396 alone would not do. */
  patch?(name: string, current: Fields, patch: Fields): Fields;
  /** What a change does that its fields do not show. */
  notes?(before: Fields | undefined, after: Fields): readonly string[];
  create(command: ActCommand): Promise<void>;
  /** Resolves when a new one does its work, with what the answer to its creation has besides; throws when it does not. */
  ready?(id: string, ctx: RequestContext): Promise<Fields>;
  change(command: ActCommand & { readonly previous: RawObject }): Promise<void>;
  /** `force`: in spite of what else would speak against it, where the kind knows such a thing. */
  remove(
    command: Omit<ActCommand, "spec"> & { readonly previous: RawObject; readonly force: boolean },
  ): Promise<void>;
  /** What `create` was asked for by this very request (its id) and is not there yet will not come any more. */
  forestall(command: Omit<ActCommand, "spec">): Promise<void>;
  /** Removes what `create` made, whatever has become of it since. */
  discard(command: Omit<ActCommand, "spec"> & { readonly previous: RawObject }): Promise<void>;
}

/** Whether objects of a kind can be applied at this server. */
export function isAppliable({ kind, write, act }: KindAdapter): boolean {
  return kind.applyOrder !== undefined && (write !== undefined || act !== undefined);
}

export function cacheReader(records: Records): Reader {
  return {
    get: (collection, id) => records.collection(collection).get(id),
    list: (collection) => records.collection(collection).list(),
  };
}

export function idOf({ id, name }: Pick<RawObject, "id" | "name">): string {
  return id ?? name;
}

/** The id that one has, or would have. */
export function idFor(adapter: KindAdapter, reader: Reader, wanted: ObjectName): string {
  return adapter.idFor?.(reader, wanted) ?? wanted.name;
}

/** As it is; undefined = it is not there. */
export function readNamed(adapter: KindAdapter, reader: Reader, wanted: ObjectName): RawObject | undefined {
  return adapter.get(reader, idFor(adapter, reader, wanted));
}

/** Byte order, as the store sorts; those of one name by their tenants. */
export function byName(a: ObjectName, b: ObjectName): number {
  const order = (x: string, y: string): number => (x < y ? -1 : Number(x > y));
  return order(a.name, b.name) || order(a.namespace ?? "", b.namespace ?? "");
}
