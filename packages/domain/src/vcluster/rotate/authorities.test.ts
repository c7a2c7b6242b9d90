import { expect, test } from "vitest";
import { graceMs, requireDroppable, requireNoRotation, requireRotatable } from "./authorities.ts";

test("clusters on several nodes are refused with the reason, those on one are not", () => {
  const nodes = [{ node: "a", address: "192.0.2.1" }];
  expect(() => requireRotatable({ name: "demo" })).not.toThrow();
  expect(() => requireRotatable({ name: "demo", overlay: { nodes, at: 0 } })).toThrow(
    "a server leads the exchange",
  );
  const replicas = [{ node: "a", address: "192.0.2.1", slot: 0 }];
  expect(() => requireRotatable({ name: "trio", overlay: { nodes: replicas, at: 0 } })).toThrow(
    "a server leads the exchange",
  );
});

test("one after the other: what was begun is gone on with, what is whole is dropped first", () => {
  const until = Date.parse("2030-01-01T00:00:00Z");
  expect(() => requireNoRotation("demo", undefined)).not.toThrow();
  expect(() => requireNoRotation("demo", { until })).not.toThrow();
  expect(() => requireNoRotation("demo", { until, isWhole: true })).toThrow("until 2030-01-01T00:00:00.000Z");
  expect(() => requireDroppable("demo", undefined)).toThrow("has one authority alone");
  expect(() => requireDroppable("demo", { until })).toThrow("goes on with that");
  expect(() => requireDroppable("demo", { until, isWhole: true })).not.toThrow();
});

test("a week unless told", () => {
  expect([graceMs(), graceMs(1)]).toEqual([7 * 86_400_000, 3_600_000]);
});
