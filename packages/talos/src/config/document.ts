// One YAML document of a machine configuration. Key order is Talos' own: it is what a person reads and compares.

export type Value = string | number | boolean | null | readonly Value[] | { readonly [key: string]: Value };

export type ConfigDocument = { readonly [key: string]: Value };

/** A document of its own kind; everything but the first of a configuration. */
export function typedDocument(
  kind: string,
  fields: Readonly<Record<string, Value | undefined>>,
): ConfigDocument {
  return compact({ apiVersion: "v1alpha1", kind, ...fields });
}

/** The fields that have a value, in order. */
export function compact(fields: Readonly<Record<string, Value | undefined>>): ConfigDocument {
  return Object.fromEntries(
    Object.entries(fields).filter((entry): entry is [string, Value] => entry[1] !== undefined),
  );
}

/** undefined for an empty list or map: such fields are left out. */
export function unlessEmpty<T extends readonly Value[] | { readonly [key: string]: Value }>(
  value: T,
): T | undefined {
  return Object.keys(value).length === 0 ? undefined : value;
}
