/** What was read and not yet looked at: an answer, a file, a part of a request. */
export type Fields = Readonly<Record<string, unknown>>;

/** Neither null nor a list. */
export function isObject(value: unknown): value is Fields {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** Of what is no object no field is there. */
export function fieldsOf(value: unknown): Fields {
  return isObject(value) ? value : {};
}
