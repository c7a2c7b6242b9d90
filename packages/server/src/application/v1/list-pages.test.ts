import fc from "fast-check";
import { describe, expect, it } from "vitest";
import type { V1Object } from "@gpve/contracts/v1/object.ts";
import { FakeClock } from "@gpve/kit/testing/fake-clock.ts";
import { decodeContinue, encodeContinue, ListSnapshots, pageOf } from "./list-pages.ts";

const named = (name: string) => ({ metadata: { name } }) as V1Object;

describe("continue tokens", () => {
  it("come back as they were made", () => {
    const token = fc.record({
      kind: fc.string(),
      revision: fc.nat(),
      after: fc.string({ unit: "grapheme" }),
      selectors: fc.string(),
    });
    fc.assert(
      fc.property(token, (made) => {
        expect(decodeContinue(encodeContinue(made))).toEqual(made);
      }),
    );
  });

  it("are refused in any other shape, and only with request.invalid", () => {
    const bad = fc.oneof(
      fc.string(),
      fc.base64String().map((text) => text.replaceAll(/[+/=]/g, "")),
      fc.jsonValue().map((value) => Buffer.from(JSON.stringify(value)).toString("base64url")),
    );
    fc.assert(
      fc.property(bad, (text) => {
        expect(() => decodeContinue(text)).toThrow(expect.objectContaining({ code: "request.invalid" }));
      }),
    );
  });
});

describe("pages", () => {
  it("together are the list, whatever their size", () => {
    fc.assert(
      fc.property(
        fc.uniqueArray(fc.string({ maxLength: 4 }), { maxLength: 30 }),
        fc.integer({ min: 1, max: 7 }),
        (names, limit) => {
          const all = names.toSorted().map(named);
          const seen: V1Object[] = [];
          let after: string | undefined;
          for (let guard = 0; guard <= names.length; guard++) {
            const { items, more, remaining = 0 } = pageOf(all, after, limit, () => true);
            seen.push(...items);
            expect(remaining).toBe(all.length - seen.length);
            expect(more).toBe(remaining > 0);
            if (!more) break;
            after = items.at(-1)?.metadata.name;
          }
          expect(seen).toEqual(all);
        },
      ),
    );
    expect(pageOf([named("a"), named("b")], "a", 0, () => true).items).toHaveLength(1);
    expect(
      pageOf([named("a"), named("b"), named("c")], undefined, 1, ({ metadata }) => metadata.name !== "a"),
    ).toEqual({
      items: [named("b")],
      more: true,
      remaining: 1,
    });
  });
});

describe("a page of a long list", () => {
  it("looks at no more objects than it must, and then does not count the rest", () => {
    const all = Array.from({ length: 5_000 }, (_value, n) => named(String(n).padStart(5, "0")));
    let looks = 0;
    const page = pageOf(all, "00099", 10, () => ++looks > 0);
    expect(page.items[0]?.metadata.name).toBe("00100");
    expect(page).toMatchObject({ more: true });
    expect(page.remaining).toBeUndefined();
    expect(looks).toBe(11);
  });
});

describe("snapshots", () => {
  it("are kept for a while, and not too many of them", async () => {
    const clock = new FakeClock();
    const snapshots = new ListSnapshots(clock);
    snapshots.save("A", 1, []);
    expect(snapshots.find("A", 1)).toEqual([]);
    expect(snapshots.find("A", 2)).toBeUndefined();
    await clock.advance(6 * 60_000);
    expect(snapshots.find("A", 1)).toBeUndefined();
    for (let revision = 10; revision < 100; revision++) snapshots.save("A", revision, []);
    expect(snapshots.find("A", 10)).toBeUndefined();
    expect(snapshots.find("A", 99)).toEqual([]);
  });
});
