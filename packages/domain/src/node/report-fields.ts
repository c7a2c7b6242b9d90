// Fields of what a node tells, whatever its version: each is of the type that it should be, or is refused with its name.

export type Row = Readonly<Record<string, unknown>>;

export function fields(json: unknown, what: string): Row {
  if (typeof json !== "object" || json === null || Array.isArray(json))
    throw new TypeError(`${what} is no object`);
  return json as Row;
}

export function list(json: unknown, what: string): readonly unknown[] {
  if (!Array.isArray(json)) throw new TypeError(`${what} is no list`);
  return json as readonly unknown[];
}

export function mapOf<T>(json: unknown, what: string, read: (json: unknown) => T): Record<string, T> {
  return Object.fromEntries(Object.entries(fields(json, what)).map(([key, each]) => [key, read(each)]));
}

export function number(row: Row | undefined, key: string): number {
  const value = row?.[key];
  if (value === undefined) return 0;
  if (typeof value !== "number" || !Number.isFinite(value)) throw new TypeError(`${key} is no number`);
  return value;
}

export function text(row: Row, key: string): string {
  const value = row[key];
  if (typeof value !== "string") throw new TypeError(`${key} is no text`);
  return value;
}

export function optionalText(row: Row | undefined, key: string): string {
  return row?.[key] === undefined ? "" : text(row, key);
}

export function texts(json: unknown, what: string): readonly string[] {
  return list(json ?? [], what).map((item) => text({ [what]: item }, what));
}

export function oneOf<const T extends string>(row: Row, key: string, allowed: readonly T[]): T {
  const value = allowed.find((each) => each === row[key]);
  if (value === undefined) throw new TypeError(`${key} is none of ${allowed.join(", ")}`);
  return value;
}
