import { openSqliteStore } from "@gpve/store/sqlite/sqlite-store.ts";
import { expect, test, vi } from "vitest";
import { fenceParts } from "./fence-setting.ts";

test("a node among others has a fence process and guards its guests", () => {
  const ensure = vi.fn();
  const { guardFile, ensureFence, ownLease } = fenceParts({ ensure }, "/run/ha/deadline");
  ensureFence();
  expect([guardFile, ownLease, ensure.mock.calls.length]).toEqual(["/run/ha/deadline", undefined, 1]);
});

test("a node by itself keeps its lease and lets guests run", () => {
  const alone = openSqliteStore({ path: ":memory:" });
  const { guardFile, ensureFence, ownLease } = fenceParts({ alone }, "/run/ha/deadline");
  ensureFence();
  expect(guardFile).toBeUndefined();
  expect(ownLease).toBe(alone);
});
