import { leaseCollection, leaseId, type NodeLease } from "@gpve/domain/ha/node-lease.ts";
import { expect, test } from "vitest";
import { vclusterWorld } from "../../testing/vcluster-world.ts";
import { LeaseWatch } from "./lease-watch.ts";

test("what another writes is no sign of life, and no reason to wait for one anew", async () => {
  const { records, clock } = await vclusterWorld();
  const watch = new LeaseWatch(records, clock);
  const write = (lease: Pick<NodeLease, "holder" | "token" | "beat">) =>
    records.transact((tx) => tx.put(leaseCollection, leaseId("n2"), { node: "n2", at: 0, ...lease }));
  expect([watch.silentMs("n2"), watch.isAlive("n2")]).toEqual([undefined, false]);
  await write({ holder: "node", token: 1, beat: 1 });
  await clock.advance(2_000);
  await write({ holder: "node", token: 1, beat: 2 });
  expect([watch.silentMs("n2"), watch.isAlive("n2")]).toEqual([0, true]);
  await clock.advance(13_000);
  expect(watch.of("n2")).toMatchObject({ unchangedMs: 13_000 });
  // Who fences it takes its lease: a change, by which nobody is alive.
  await write({ holder: "manager", token: 2, beat: 2 });
  expect(watch.of("n2")).toMatchObject({ unchangedMs: 0 });
  expect([watch.silentMs("n2"), watch.isAlive("n2")]).toEqual([13_000, false]);
  await write({ holder: "manager", token: 2, beat: 3 });
  expect([watch.silentMs("n2"), watch.isAlive("n2")]).toEqual([0, true]);
  watch.close();
});
