import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { isAppError } from "../errors.ts";
import { fieldAt, fieldText, fillTemplate, readTemplate } from "./field-path.ts";
import { findKind } from "./kinds.ts";
import { formatSelector, matches, parseFieldSelector, parseLabelSelector } from "./selector.ts";
import type { Requirement } from "./selector.ts";

const labels = (map: Record<string, string>) => (key: string) => map[key];

describe("label selectors", () => {
  it.each([
    ["", { a: "1" }, true],
    ["a=1", { a: "1" }, true],
    ["a==1", { a: "2" }, false],
    ["a!=1", {}, true],
    ["a in (1, 2),b", { a: "2", b: "" }, true],
    ["a notin (1,2)", { a: "2" }, false],
    ["!a", { b: "x" }, true],
    ["a", {}, false],
    ["gpve.io/tier=gold", { "gpve.io/tier": "gold" }, true],
    ["a=", { a: "" }, true],
  ])("reads %j on %j as %j", (text, map, expected) => {
    expect(matches(parseLabelSelector(text), labels(map))).toBe(expected);
  });

  it.each(["a=(", "a in (x", "a in ((x))", ")", "a,,b", "a=b=c", "a b", "=x", "a=ü", "!", "a in (x,?)"])(
    "refuses %j with the parameter's name",
    (text) => {
      try {
        parseLabelSelector(text);
        expect.unreachable();
      } catch (err) {
        expect(isAppError(err, "request.invalid") && err.errors?.["labelSelector"]).toBeTruthy();
      }
    },
  );

  it("refuses one that is too long", () => {
    expect(() => parseLabelSelector("a".repeat(5000))).toThrow(/longer/);
  });

  it("survives its own printing, whatever it is", () => {
    const key = fc.stringMatching(/^[a-z]([a-z0-9.-]{0,10}[a-z0-9])?$/);
    const value = fc.stringMatching(/^[A-Za-z0-9]{0,8}$/);
    const term: fc.Arbitrary<Requirement> = fc.oneof(
      fc.record({
        key,
        op: fc.constantFrom("in" as const, "notin" as const),
        values: fc.array(value, { minLength: 1, maxLength: 3 }),
      }),
      fc.record({ key, op: fc.constantFrom("exists" as const, "missing" as const) }),
    );
    fc.assert(
      fc.property(fc.array(term, { maxLength: 4 }), (selector) => {
        expect(parseLabelSelector(formatSelector(selector))).toEqual(selector);
      }),
    );
  });

  it("never fails otherwise than with request.invalid", () => {
    fc.assert(
      fc.property(fc.string({ maxLength: 80 }), (text) => {
        let unexpected: unknown;
        try {
          parseLabelSelector(text);
          parseFieldSelector(text, ["a"]);
        } catch (err) {
          if (!isAppError(err, "request.invalid")) unexpected = err;
        }
        expect(unexpected).toBeUndefined();
      }),
    );
  });
});

describe("field selectors", () => {
  it("knows only the fields of the kind", () => {
    const selector = parseFieldSelector("status.health=online,metadata.name!=x", [
      "status.health",
      "metadata.name",
    ]);
    expect(matches(selector, labels({ "status.health": "online", "metadata.name": "y" }))).toBe(true);
    expect(() => parseFieldSelector("spec.secret=1", ["status.health"])).toThrow(/cannot be selected/);
    expect(() => parseFieldSelector("status.health", ["status.health"])).toThrow(/FIELD=VALUE/);
  });
});

describe("field paths", () => {
  const object = { metadata: { name: "a" }, spec: { path: "/x", deep: { n: 1, ok: true } } };

  it("reads nested fields and nothing of the prototype", () => {
    expect(fieldAt(object, "spec.deep")).toEqual({ n: 1, ok: true });
    expect(fieldText(object, "spec.deep.n")).toBe("1");
    expect(fieldText(object, "spec.deep")).toBeUndefined();
    expect(fieldAt(object, "spec.constructor.name")).toBeUndefined();
  });

  it("fills templates only completely", () => {
    expect(fillTemplate("/p/{name}{spec.path}", object)).toBe("/p/a/x");
    expect(fillTemplate("/p/{spec.nothing}", object)).toBeUndefined();
  });
});

describe("templates", () => {
  it("are read back where they fit", () => {
    expect(readTemplate("{spec.role}@{spec.path}", "PVEAdmin@/pool/a@b")).toEqual(
      new Map([
        ["spec.role", "PVEAdmin"],
        ["spec.path", "/pool/a@b"],
      ]),
    );
    expect(readTemplate("{spec.role}@{spec.path}", "nothing")).toBeUndefined();
  });

  it("know the realm of a user", () => {
    expect(fillTemplate("/access/realm/{realm}", { metadata: { name: "a@b@pve" } })).toBe(
      "/access/realm/pve",
    );
    expect(fillTemplate("/access/realm/{realm}", { metadata: { name: "a" } })).toBeUndefined();
  });
});

describe("kinds", () => {
  it("are found by kind, plural and alias in any case", () => {
    expect(findKind("Tenant")?.plural).toBe("tenants");
    expect(findKind("POOLS")?.kind).toBe("Tenant");
    expect(findKind("nothing")).toBeUndefined();
  });
});
