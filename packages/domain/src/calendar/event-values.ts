// The values one field of a calendar event may have: `5`, `1..5`, `0/15`, `2..22/2`, and lists of them.

export interface EventValue {
  readonly start: number;
  /** Last value; absent: only `start`, or with a step without an end. */
  readonly end?: number;
  readonly step?: number;
}

/** An empty list means every value. */
export type EventValues = readonly EventValue[];

export function matches(values: EventValues, value: number): boolean {
  return values.length === 0 || values.some((each) => contains(each, value));
}

/** The smallest allowed value above the given one; undefined = there is none. */
export function nextAbove(values: EventValues, value: number): number | undefined {
  let found: number | undefined;
  for (const each of values) {
    const next = nextOf(each, value);
    if (next !== undefined && (found === undefined || next < found)) found = next;
  }
  return found;
}

function contains({ start, end, step }: EventValue, value: number): boolean {
  if (value < start || value > (end ?? Number.POSITIVE_INFINITY)) return false;
  if (step === undefined) return end === undefined ? value === start : true;
  return step === 0 ? value === start : (value - start) % step === 0;
}

function nextOf({ start, end, step }: EventValue, value: number): number | undefined {
  if (value < start) return start;
  if (step === 0 || (step === undefined && end === undefined)) return undefined;
  const every = step ?? 1;
  const next = start + (Math.floor((value - start) / every) + 1) * every;
  return next <= (end ?? Number.POSITIVE_INFINITY) ? next : undefined;
}
