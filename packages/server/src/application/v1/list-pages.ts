// Pages of one list at one revision. The state a list was begun on is remembered for a while; a server that does
// not have it reads it from the store's history.
import { AppError } from "@gpve/contracts/errors.ts";
import type { V1Object } from "@gpve/contracts/v1/object.ts";
import type { Clock } from "@gpve/kit/clock.ts";

export interface ContinueToken {
  readonly kind: string;
  readonly revision: number;
  /** Of the last object of the page before: see `placeOf`. */
  readonly after: string;
  /** Both selectors as text: a token continues the very list it came from. */
  readonly selectors: string;
}

export function encodeContinue(token: ContinueToken): string {
  return Buffer.from(JSON.stringify([1, token.kind, token.revision, token.after, token.selectors])).toString(
    "base64url",
  );
}

export function decodeContinue(text: string): ContinueToken {
  const invalid = (): AppError =>
    new AppError("request.invalid", "continue is not a token this server made", {
      errors: { continue: "is not a continue token" },
    });
  if (!/^[A-Za-z0-9_-]{1,8192}$/.test(text)) throw invalid();
  let parsed: unknown;
  try {
    parsed = JSON.parse(Buffer.from(text, "base64url").toString("utf8"));
  } catch (cause) {
    throw new AppError("request.invalid", "continue is not a token this server made", {
      cause,
      errors: { continue: "is not a continue token" },
    });
  }
  if (!Array.isArray(parsed) || parsed.length !== 5) throw invalid();
  const [version, kind, revision, after, selectors] = parsed as unknown[];
  if (
    version !== 1 ||
    typeof kind !== "string" ||
    typeof revision !== "number" ||
    !Number.isSafeInteger(revision) ||
    revision < 0 ||
    typeof after !== "string" ||
    typeof selectors !== "string"
  ) {
    throw invalid();
  }
  return { kind, revision, after, selectors };
}

const MAX_SNAPSHOTS = 64;
const TTL_MS = 5 * 60_000;

/** The lists clients are in the middle of. Objects are shared with the cache, so one costs an array. */
export class ListSnapshots {
  readonly #clock: Clock;
  readonly #snapshots = new Map<string, { readonly objects: readonly V1Object[]; until: number }>();

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  save(kind: string, revision: number, objects: readonly V1Object[]): void {
    const key = `${kind}@${revision}`;
    this.#snapshots.delete(key);
    this.#snapshots.set(key, { objects, until: this.#clock.now() + TTL_MS });
    for (const [old, snapshot] of this.#snapshots) {
      if (this.#snapshots.size <= MAX_SNAPSHOTS && snapshot.until > this.#clock.now()) break;
      this.#snapshots.delete(old);
    }
  }

  find(kind: string, revision: number): readonly V1Object[] | undefined {
    const found = this.#snapshots.get(`${kind}@${revision}`);
    return found !== undefined && found.until > this.#clock.now() ? found.objects : undefined;
  }
}

/** Counting what is left costs a look at all of it; beyond this many objects it is not told. */
const COUNT_LIMIT = 2_000;

export interface Page {
  readonly items: readonly V1Object[];
  readonly more: boolean;
  readonly remaining?: number;
}

/** Splits off the objects of one page, looking at no more of them than it must. `limit` 0 = all. */
export function pageOf(
  objects: readonly V1Object[],
  after: string | undefined,
  limit: number,
  visible: (object: V1Object) => boolean,
): Page {
  const start = after === undefined ? 0 : firstAfter(objects, after);
  if (limit === 0)
    return { items: (start === 0 ? objects : objects.slice(start)).filter(visible), more: false };
  const items: V1Object[] = [];
  let more = false;
  let at = start;
  for (; at < objects.length && !more; at++) {
    const object = objects[at];
    if (object === undefined || !visible(object)) continue;
    if (items.length < limit) items.push(object);
    else more = true;
  }
  if (!more) return { items, more };
  if (objects.length > COUNT_LIMIT) return { items, more };
  return { items, more, remaining: 1 + objects.slice(at).filter(visible).length };
}

/** Where an object is in a list. */
export function placeOf({ name, namespace }: Pick<V1Object["metadata"], "name" | "namespace">): string {
  return namespace === undefined ? name : `${name}\0${namespace}`;
}

/** Binary search: lists are sorted by name, then by tenant. */
function firstAfter(objects: readonly V1Object[], place: string): number {
  const [name = "", namespace] = place.split("\0");
  let low = 0;
  let high = objects.length;
  while (low < high) {
    const middle = (low + high) >>> 1;
    const found = objects[middle]?.metadata;
    // A token of before names no tenant: all of that name have been told.
    const isTold =
      found?.name === name
        ? namespace === undefined || (found.namespace ?? "") <= namespace
        : (found?.name ?? "") < name;
    if (isTold) low = middle + 1;
    else high = middle;
  }
  return low;
}
