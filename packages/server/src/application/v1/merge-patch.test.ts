import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { didYouMean } from "@gpve/kit/did-you-mean.ts";
import { diffFields, mergePatch, sameJson } from "./merge-patch.ts";
import { secretFields, withoutSecrets } from "./secret-fields.ts";

describe("merge patch", () => {
  // The examples of RFC 7396, appendix A.
  it.each([
    [{ a: "b" }, { a: "c" }, { a: "c" }],
    [{ a: "b" }, { b: "c" }, { a: "b", b: "c" }],
    [{ a: "b" }, { a: null }, {}],
    [{ a: "b", b: "c" }, { a: null }, { b: "c" }],
    [{ a: ["b"] }, { a: "c" }, { a: "c" }],
    [{ a: "c" }, { a: ["b"] }, { a: ["b"] }],
    [{ a: { b: "c" } }, { a: { b: "d", c: null } }, { a: { b: "d" } }],
    [{ a: [{ b: "c" }] }, { a: [1] }, { a: [1] }],
    [
      ["a", "b"],
      ["c", "d"],
      ["c", "d"],
    ],
    [{ a: "b" }, ["c"], ["c"]],
    [{ a: "foo" }, null, null],
    [{ a: "foo" }, "bar", "bar"],
    [{ e: null }, { a: 1 }, { e: null, a: 1 }],
    [[1, 2], { a: "b", c: null }, { a: "b" }],
    [{}, { a: { bb: { ccc: null } } }, { a: { bb: {} } }],
  ])("of %j with %j gives %j", (target, patch, expected) => {
    expect(mergePatch(target, patch)).toEqual(expected);
  });

  const json = fc.jsonValue({ maxDepth: 3 }) as fc.Arbitrary<unknown>;

  it("is done after once, and leaves its arguments alone", () => {
    fc.assert(
      fc.property(json, json, (target, patch) => {
        const before = JSON.stringify([target, patch]);
        const once = mergePatch(target, patch);
        expect(sameJson(mergePatch(once, patch), once)).toBe(true);
        expect(JSON.stringify([target, patch])).toBe(before);
      }),
    );
  });

  it("never touches prototypes", () => {
    const patch: unknown = JSON.parse('{"__proto__": {"polluted": true}}');
    const merged = mergePatch({}, patch) as Record<string, unknown>;
    expect(Object.hasOwn(merged, "__proto__")).toBe(true);
    expect(({} as Record<string, unknown>)["polluted"]).toBeUndefined();
  });
});

describe("differences", () => {
  it("are empty exactly for equal values", () => {
    const json = fc.jsonValue({ maxDepth: 3 }) as fc.Arbitrary<unknown>;
    fc.assert(
      fc.property(json, json, (a, b) => {
        expect(diffFields(a, b, "x").length === 0).toBe(sameJson(a, b));
        expect(diffFields(a, structuredClone(a), "x")).toEqual([]);
      }),
    );
  });

  it("name the field, and never show a secret", () => {
    const schema = {
      properties: {
        user: {},
        password: { writeOnly: true },
        disks: { items: { properties: { key: { writeOnly: true } } } },
      },
    };
    const secrets = secretFields(schema, "spec");
    expect([...secrets]).toEqual(["spec.password", "spec.disks.key"]);
    const changes = diffFields(
      { spec: { user: "a", password: "old", gone: 1 } },
      { spec: { user: "b", password: "new", more: [1] } },
      "",
      (path) => secrets.has(path),
    );
    expect(changes).toEqual([
      { path: "spec.gone", op: "remove", before: 1 },
      { path: "spec.more", op: "add", after: [1] },
      { path: "spec.password", op: "replace", before: "(secret)", after: "(secret)" },
      { path: "spec.user", op: "replace", before: "a", after: "b" },
    ]);
    // Nor inside of what comes or goes as a whole.
    const made = diffFields(
      undefined,
      { spec: { user: "a", password: "p", disks: [{ key: "k" }] } },
      "",
      (path) => secrets.has(path.replace(/^\./, "")),
    );
    expect(made).toEqual([
      {
        path: "",
        op: "add",
        after: { spec: { user: "a", password: "(secret)", disks: [{ key: "(secret)" }] } },
      },
    ]);
    expect(
      withoutSecrets({ user: "a", password: "p", disks: [{ key: "k", size: 1 }] }, secrets, "spec"),
    ).toEqual({
      user: "a",
      password: "(secret)",
      disks: [{ key: "(secret)", size: 1 }],
    });
  });
});

describe("did you mean", () => {
  it("finds slips and keeps silent otherwise", () => {
    expect(didYouMean("coment", ["comment", "content"])).toBe("comment");
    expect(didYouMean("COMMENT", ["comment"])).toBe("comment");
    expect(didYouMean("zzz", ["comment"])).toBeUndefined();
    expect(didYouMean("x".repeat(5000), ["comment"])).toBeUndefined();
  });
});
