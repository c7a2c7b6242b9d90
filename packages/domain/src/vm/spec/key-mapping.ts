// What one key of PVE's configuration is in a VirtualMachine's spec.

export type TypedFields = Readonly<Record<string, unknown>>;

/** Reading what was written gives the same fields; writing what was read gives the same meaning, maybe other text. */
export interface KeyMapping {
  /** undefined = no typed field can say that; it stays in `config`. */
  read(key: string, text: string): TypedFields | undefined;
  /** `path` is where the fields are, for what is wrong with them. */
  write(key: string, fields: TypedFields, path: string): string;
}

/** Fields of an object of the spec that one key stands behind. */
export interface SectionKey extends KeyMapping {
  /** cpu, memory, …; empty: of the spec itself. */
  readonly section: string;
  readonly key: string;
  readonly fields: readonly string[];
}

/** Named entries, each of which is a key. */
export interface ListKeys extends KeyMapping {
  readonly path: readonly string[];
  readonly kinds: string;
  isKey(key: string): boolean;
}
