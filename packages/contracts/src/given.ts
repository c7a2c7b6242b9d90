/** What is left of `T` when its undefined fields are left out. */
export type Given<T> = { [K in keyof T]?: Exclude<T[K], undefined> };

/**
 * Leaves out the fields that are undefined, for `...given({ a, b })`: types are exact here, so a field that is there and undefined is not
 * the same as one that is absent, and JSON, argv and option objects must not carry it.
 */
export function given<const T extends object>(fields: T): Given<T> {
  const left: Record<string, unknown> = {};
  for (const [name, value] of Object.entries(fields)) if (value !== undefined) left[name] = value;
  return left as Given<T>;
}
