// Where records of the cluster lie, and how they are read. Servers and agents share what is declared with these; the
// records of `store` have this shape.
import { AppError } from "@gpve/contracts/errors.ts";
import { isObject } from "@gpve/contracts/json-object.ts";

export interface RecordCollection<T> {
  /** Ends with "/": "/gpve/access/users/". */
  readonly prefix: string;
  /** Throws on a shape of the future. */
  readonly decode: (json: unknown) => T;
  /** One that cannot be read hides all: what is missing changes what the others mean. */
  readonly allOrNothing?: true;
}

/** Records that are objects; what is in them is not looked at. */
export function objectRecords<T extends object>(prefix: string): RecordCollection<T> {
  return {
    prefix,
    decode: (json) => {
      if (isObject(json)) return json as T;
      throw unknownShape(`a record below ${prefix}`);
    },
  };
}

export function unknownShape(what: string): AppError {
  return new AppError("data.newer_version", `${what} has a shape this version does not know`);
}

export interface RecordEntry<T> {
  readonly id: string;
  readonly value: T;
}

export interface RecordReader {
  /** The list is the same object until the collection changes. */
  collection<T>(collection: RecordCollection<T>): { list(): readonly RecordEntry<T>[] };
}

export function valuesOf<T>(records: RecordReader, collection: RecordCollection<T>): readonly T[] {
  return records
    .collection(collection)
    .list()
    .map(({ value }) => value);
}

interface RecordTx {
  get<T>(collection: RecordCollection<T>, id: string): RecordEntry<T> | undefined;
  put<T>(collection: RecordCollection<T>, id: string, value: T): void;
  delete<T>(collection: RecordCollection<T>, id: string): void;
}

export interface RecordWriter extends RecordReader {
  transact(change: (tx: RecordTx) => void): Promise<void>;
  /** Resolves when what is read is as new as the store. */
  fresh(): Promise<void>;
}
