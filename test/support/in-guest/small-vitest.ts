// What conformance suites use of vitest, on Node's own runner: the real one is too large to carry into an emulated guest.
import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";

export { after as afterAll, before as beforeAll, describe, it };

type Thrown = string | RegExp | undefined;

interface Matchers {
  toBe(wanted: unknown): void;
  toEqual(wanted: unknown): void;
  toMatchObject(wanted: object): void;
  toContain(wanted: unknown): void;
  toBeGreaterThan(wanted: number): void;
  toBeLessThanOrEqual(wanted: number): void;
  toThrow(wanted?: Thrown): void;
}

export function expect(
  actual: unknown,
): Matchers & { readonly rejects: { toThrow(wanted?: Thrown): Promise<void> } } {
  return {
    toBe: (wanted) => assert.equal(actual, wanted),
    toEqual: (wanted) => assert.deepEqual(plain(actual), plain(wanted)),
    toMatchObject: (wanted) => assert.partialDeepStrictEqual(actual, wanted),
    toContain: (wanted) =>
      assert.ok((actual as { includes(one: unknown): boolean }).includes(wanted), say(actual)),
    toBeGreaterThan: (wanted) => assert.ok(Number(actual) > wanted, `${say(actual)} > ${wanted}`),
    toBeLessThanOrEqual: (wanted) => assert.ok(Number(actual) <= wanted, `${say(actual)} <= ${wanted}`),
    toThrow: (wanted) => assert.throws(actual as () => unknown, like(wanted)),
    rejects: { toThrow: (wanted) => assert.rejects(actual as Promise<unknown>, like(wanted)) },
  };
}

/** Rows of bytes are alike whatever class holds them. */
function plain(value: unknown): unknown {
  return value instanceof Uint8Array ? [...value] : value;
}

function like(wanted: Thrown): (err: unknown) => boolean {
  return (err) => {
    const { message } = err as Error;
    const matches =
      wanted === undefined || (typeof wanted === "string" ? message.includes(wanted) : wanted.test(message));
    assert.ok(matches, `${say(message)} is not like ${say(String(wanted))}`);
    return true;
  };
}

function say(value: unknown): string {
  return JSON.stringify(value);
}
