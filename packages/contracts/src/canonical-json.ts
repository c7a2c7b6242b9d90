/**
 * JSON with one spelling for one value: keys sorted, no spaces, absent members left out. What is hashed or signed is
 * written this way. Follows JSON.stringify for everything else (NaN is null, dates are their ISO text).
 */
export function canonicalJson(value: unknown): string {
  return JSON.stringify(value, (_key, item: unknown) => {
    if (typeof item !== "object" || item === null || Array.isArray(item)) return item;
    const sorted: Record<string, unknown> = {};
    for (const name of Object.keys(item).toSorted()) {
      const member = (item as Record<string, unknown>)[name];
      // defineProperty: a member may be called __proto__.
      Object.defineProperty(sorted, name, { value: member, enumerable: true });
    }
    return sorted;
  });
}
