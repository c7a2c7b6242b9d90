// Which fields of a schema hold secrets: those marked writeOnly.

/** Paths as diffs name them, "spec.password". Inside arrays the array's own path. */
export function secretFields(schema: unknown, at: string): ReadonlySet<string> {
  const found = new Set<string>();
  collect(schema, at, found);
  return found;
}

/** A copy without the values of secret fields, for hashes and audit. */
export function withoutSecrets(value: unknown, secrets: ReadonlySet<string>, at: string): unknown {
  if (secrets.has(at)) return "(secret)";
  if (Array.isArray(value)) return value.map((part) => withoutSecrets(part, secrets, at));
  if (typeof value !== "object" || value === null) return value;
  return Object.fromEntries(
    Object.entries(value).map(([key, part]) => [key, withoutSecrets(part, secrets, `${at}.${key}`)]),
  );
}

function collect(schema: unknown, at: string, found: Set<string>): void {
  if (typeof schema !== "object" || schema === null) return;
  const { writeOnly, properties, items } = schema as Readonly<Record<string, unknown>>;
  if (writeOnly === true) found.add(at);
  if (items !== undefined) collect(items, at, found);
  if (typeof properties !== "object" || properties === null) return;
  for (const [name, part] of Object.entries(properties)) collect(part, `${at}.${name}`, found);
}
