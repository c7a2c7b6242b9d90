import { conditionTimesCollection } from "@gpve/domain/condition/condition-times.ts";
import type { NodeView } from "@gpve/domain/node/runtime.ts";
import { FakeClock } from "@gpve/kit/testing/fake-clock.ts";
import { silentLogger } from "@gpve/kit/logger.ts";
import { expect, it } from "vitest";
import { MemoryRecords } from "../../testing/memory-records.ts";
import { nodeRecords } from "../node/collections.ts";
import { removeNode } from "../node/remove-node.ts";
import { NodeConditionTimes } from "./node-condition-times.ts";
import { joinedNode } from "../../testing/joined-node.ts";

const GIB = 1024 ** 3;

function viewOf(health: NodeView["health"], available = 4 * GIB): NodeView {
  const usage = { memory: { total: 8 * GIB, available }, rootfs: { total: 100, avail: 50 } };
  const report = { at: 0, usage, storages: [], guests: [] };
  return { node: "n1", health, lastSeen: 0, report } as unknown as NodeView;
}

async function world() {
  const records = new MemoryRecords();
  const clock = new FakeClock();
  await records.transact((tx) =>
    tx.put(nodeRecords, "n1", joinedNode("n1", { joinedAt: clock.now() - 9000 })),
  );
  const server = () => {
    const listeners = new Set<(view: NodeView) => void>();
    const times = new NodeConditionTimes({
      records,
      clock,
      log: silentLogger,
      board: { list: () => [viewOf("unknown")], onChange: (each) => (listeners.add(each), () => undefined) },
    });
    return { times, sees: (view: NodeView) => listeners.forEach((each) => each(view)) };
  };
  return { records, clock, server };
}

it("says when a condition changed last, the same at every server and after a restart", async () => {
  const { clock, server } = await world();
  const [a, b] = [server(), server()];
  const joined = clock.now();
  a.sees(viewOf("online"));
  await clock.advance(700);
  b.sees(viewOf("online"));
  await a.times.close();
  await b.times.close();
  expect([a, b].map(({ times }) => times.since("n1", "Ready", "True"))).toEqual([joined, joined]);

  await clock.advance(60_000);
  const lost = clock.now();
  a.sees(viewOf("offline"));
  await clock.advance(400);
  b.sees(viewOf("offline"));
  await a.times.close();
  await b.times.close();
  expect([a, b].map(({ times }) => times.since("n1", "Ready", "False"))).toEqual([lost, lost]);
  // What was not to be seen meanwhile has not changed for all that is known.
  await clock.advance(5000);
  const back = clock.now();
  a.sees(viewOf("online", GIB / 100));
  await a.times.close();
  expect(a.times.since("n1", "DiskPressure", "False")).toBe(joined);
  expect(a.times.since("n1", "MemoryPressure", "True")).toBe(back);

  await clock.advance(60_000);
  const restarted = server();
  // It has not heard of the node yet: that is since it began.
  expect(restarted.times.since("n1", "Ready", "Unknown")).toBe(clock.now());
  restarted.sees(viewOf("online", GIB / 100));
  await restarted.times.close();
  expect(restarted.times.since("n1", "Ready", "True")).toBe(back);
});

it("does not write what another server sees differently again and again", async () => {
  const { records, clock, server } = await world();
  const [a, b] = [server(), server()];
  a.sees(viewOf("online"));
  b.sees(viewOf("offline"));
  for (let round = 0; round < 5; round++) {
    await clock.advance(1000);
    a.sees(viewOf("online"));
    b.sees(viewOf("offline"));
  }
  await a.times.close();
  await b.times.close();
  expect(records.collection(conditionTimesCollection).get("nodes/n1")?.version).toBeLessThanOrEqual(2);
  expect(a.times.since("n1", "Ready", "True")).toBeLessThan(clock.now() - 4000);
  expect(b.times.since("n1", "Ready", "False")).toBeLessThan(clock.now() - 4000);
});

it("tries again what the store did not take, and forgets a node that was removed", async () => {
  const { records, clock, server } = await world();
  const { times, sees } = server();
  const first = clock.now();
  let isDown = true;
  const transact: typeof records.transact = records.transact.bind(records);
  records.transact = (change) => (isDown ? Promise.reject(new Error("no quorum")) : transact(change));
  sees(viewOf("online"));
  await times.close();
  isDown = false;
  await clock.advance(3000);
  sees(viewOf("online"));
  await times.close();
  expect(records.collection(conditionTimesCollection).get("nodes/n1")?.value["Ready"]).toEqual({
    status: "True",
    since: first,
  });
  await records.transact((tx) => removeNode(tx, { node: "n1", force: false, ownNode: undefined }));
  sees(viewOf("offline"));
  await times.close();
  expect(records.collection(conditionTimesCollection).list()).toEqual([]);
});
