import { given } from "@gpve/contracts/given.ts";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { add, amountOf, growth, keysOf, most, RESOURCES, type Amounts } from "./amounts.ts";
import { chargeOf, hardOf, isWithin, rootTenant, tenantsOf, type Quota } from "./quota.ts";
import { quotaSpec, readQuota } from "./read-quota.ts";
import { excesses, quotaExceeded } from "./verdict.ts";

const GIB = 1024 ** 3;
const amounts: fc.Arbitrary<Amounts> = fc.dictionary(
  fc.constantFrom(...RESOURCES, "storage/local" as const),
  fc.nat(1_000_000),
);
const NONE = { limits: {}, requests: {} };

test("what has grown, added to what was, is the larger of both", () => {
  fc.assert(
    fc.property(amounts, amounts, (before, after) => {
      const both = most(before, after);
      for (const key of keysOf(both))
        expect(amountOf(add(before, growth(before, after)), key)).toBe(amountOf(both, key));
    }),
  );
});

test("whatever is admitted one after the other never exceeds what is allowed", () => {
  fc.assert(
    fc.property(amounts, fc.array(amounts, { maxLength: 20 }), (limits, wishes) => {
      const quota: Quota = { name: "q", tenant: "a", limits, requests: {} };
      let used: Amounts = {};
      for (const wish of wishes) {
        const refused = excesses(quota, { limits: used, requests: {} }, { limits: wish, requests: {} });
        if (refused.length === 0) used = add(used, wish);
      }
      for (const key of keysOf(limits))
        expect(amountOf(used, key)).toBeLessThanOrEqual(amountOf(limits, key));
    }),
  );
});

test("what is over already refuses only what makes it worse", () => {
  const quota: Quota = { name: "q", tenant: "a", limits: { cpu: 2, memory: GIB }, requests: {} };
  const used = { limits: { cpu: 8 }, requests: {} };
  expect(excesses(quota, used, { limits: { memory: GIB }, requests: {} })).toEqual([]);
  expect(excesses(quota, used, { limits: { cpu: 1 }, requests: {} })).toMatchObject([
    { resource: "cpu", used: 8, asked: 1, hard: 2 },
  ]);
});

test("overcommit multiplies cpu and memory, of both bounds, and nothing else", () => {
  const bound = { cpu: 3, memory: GIB, vmCount: 2 };
  const quota: Quota = {
    name: "q",
    tenant: "a",
    limits: bound,
    requests: bound,
    overcommit: { cpu: 1.5, memory: 2 },
  };
  for (const name of ["limits", "requests"] as const)
    expect(hardOf(quota, name)).toEqual({ cpu: 4.5, memory: 2 * GIB, vmCount: 2 });
});

test("limits count what is defined, requests what runs, a scope what it selects", () => {
  const guest = { demand: { cpu: 2 }, tags: ["gold", "web"], running: false };
  const quota: Quota = { name: "q", tenant: "a", limits: {}, requests: {} };
  const charge = (scope: Quota["scope"], running: boolean) =>
    chargeOf({ ...quota, ...given({ scope }) }, { ...guest, running });
  expect(charge(undefined, false)).toEqual({ limits: { cpu: 2 }, requests: {} });
  expect(charge(undefined, true)).toEqual({ limits: { cpu: 2 }, requests: { cpu: 2 } });
  expect(charge({ state: "running" }, false)).toEqual(NONE);
  expect(charge({ state: "stopped" }, false).limits).toEqual({ cpu: 2 });
  expect(charge({ tags: ["gold"] }, false).limits).toEqual({ cpu: 2 });
  expect(charge({ tags: ["gold", "db"] }, false)).toEqual(NONE);
  // Without a priority it has 0.
  expect(charge({ priority: { min: 0 } }, false).limits).toEqual({ cpu: 2 });
  expect(charge({ priority: { min: 1 } }, false)).toEqual(NONE);
  const urgent: Quota = { ...quota, scope: { priority: { min: 10, max: 20 } } };
  const charged = [9, 10, 20, 21].map((priority) => chargeOf(urgent, { ...guest, priority }).limits["cpu"]);
  expect(charged).toEqual([undefined, 2, 2, undefined]);
});

test("a pool is bounded by its own quota and by those of all pools above", () => {
  expect(tenantsOf("a/b/c")).toEqual(["a/b/c", "a/b", "a"]);
  expect(rootTenant("a/b")).toBe("a");
  expect([isWithin("a", "a/b"), isWithin("a", "ab"), isWithin("a/b", "a")]).toEqual([true, false, false]);
});

test("a refusal says what is used, asked and allowed, and who can change it", () => {
  const quota: Quota = { name: "q", tenant: "a/b", limits: { memory: 4 * GIB }, requests: { cpu: 2 } };
  const found = excesses(
    quota,
    { limits: { memory: 3 * GIB }, requests: { cpu: 1 } },
    { limits: { memory: 2 * GIB }, requests: { cpu: 2 } },
  );
  expect(quotaExceeded("create VM 100", found).message).toBe(
    "unable to create VM 100: quota exceeded - memory of tenant 'a/b': used 3Gi, asked 2Gi, hard 4Gi (quota 'q'); " +
      "cpu of tenant 'a/b' that may run at once: used 1, asked 2, hard 2 (quota 'q'). " +
      "Free some of it, or ask somebody with Pool.Allocate on /pool/a to raise the quota",
  );
});

describe("the spec of a ResourceQuota", () => {
  const spec = {
    limits: { cpu: 8, memory: "16Gi", storage: "1Ti", storages: { local: "100Gi" }, vmCount: 4 },
    requests: { cpu: 4 },
    overcommit: { cpu: 2 },
    scopeSelector: { state: "running", labels: { gold: "" }, priority: { min: 1, max: 9 } },
  };

  test("is read into numbers and shown again as it was", () => {
    const quota = readQuota("q", "a", spec);
    expect(quota.limits).toEqual({
      cpu: 8,
      memory: 16 * GIB,
      storage: 1024 * GIB,
      "storage/local": 100 * GIB,
      vmCount: 4,
    });
    expect(quotaSpec(quota)).toEqual(spec);
  });

  test.each([
    [{ limits: { memory: "4GB" } }, "spec.limits.memory", "did you mean '4Gi'?"],
    [{ limits: { memory: "4gi" } }, "spec.limits.memory", "did you mean '4Gi'?"],
    [{ requests: { storages: { local: "-1Gi" } } }, "spec.requests.storages.local", "is no size"],
    [{}, "spec", "bounds nothing"],
    [
      { limits: { cpu: 1 }, scopeSelector: { labels: { tier: "gold" } } },
      "spec.scopeSelector.labels.tier",
      "no value",
    ],
    [
      { limits: { cpu: 1 }, scopeSelector: { priority: {} } },
      "spec.scopeSelector.priority",
      "bounds nothing",
    ],
    [
      { limits: { cpu: 1 }, scopeSelector: { priority: { min: 2, max: 1 } } },
      "spec.scopeSelector.priority",
      "has no guest",
    ],
  ])("names the field of what cannot be meant: %j", (bad, path, text) => {
    expect(() => readQuota("q", "a", bad)).toThrow(
      expect.objectContaining({ errors: { [path]: expect.stringContaining(text) } }),
    );
  });
});
