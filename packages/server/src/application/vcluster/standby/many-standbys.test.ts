import type { NodeBoard, NodeView } from "@gpve/domain/node/runtime.ts";
import { vclusterCollection } from "@gpve/domain/vcluster/vcluster-record.ts";
import { readVirtualClusterSpec } from "@gpve/domain/vcluster/vcluster-spec.ts";
import { FakeClock } from "@gpve/kit/testing/fake-clock.ts";
import { expect, test } from "vitest";
import { quietLog } from "../../../testing/agent-face.ts";
import { MemoryRecords } from "../../../testing/memory-records.ts";
import { nodeRecords } from "../../node/collections.ts";
import { KeepStandbys } from "./keep-standbys.ts";
import { joinedNode } from "../../../testing/joined-node.ts";

const NODES = ["a", "b", "c"];
const { signal } = new AbortController();

/** Microseconds of a look at one of so many, all of which have standbys in sync. */
async function cost(count: number): Promise<number> {
  const records = new MemoryRecords();
  const clock = new FakeClock(1_000_000);
  const names = Array.from({ length: count }, (_none, index) => `c${index}`);
  const spec = readVirtualClusterSpec({});
  const standby = { node: "b", of: "a", generation: 1, mode: "stream", version: "1.36.4" } as const;
  await records.transact((tx) => {
    for (const [at, name] of NODES.entries())
      tx.put(nodeRecords, name, joinedNode(name, { nodeid: at + 1, address: `192.0.2.${at + 1}` }));
    for (const name of names)
      tx.put(vclusterCollection, name, {
        name,
        tenant: "default",
        node: "a",
        spec,
        madeBy: "r",
        standby: { ...standby, inSync: true, since: 0 },
      });
  });
  const told = { generation: 1, isJoined: true, isConnected: true, revision: 9, confirmed: 9 };
  const rows = names.map((name) => ({
    name,
    phase: "Running",
    power: "hot",
    version: "1.36.4",
    standby: told,
  }));
  const standbys = names.map((name) => ({ name, tenant: "default" }));
  const views = new Map(
    NODES.map((node) => {
      const report = { vclusters: node === "a" ? rows : [], standbys: node === "b" ? standbys : [] };
      return [node, { node, health: "online", address: "192.0.2.1", report } as unknown as NodeView];
    }),
  );
  const board: NodeBoard = {
    list: () => [...views.values()],
    get: (node) => views.get(node),
    generation: () => 1,
  };
  const keeper = new KeepStandbys({
    records,
    board,
    placer: { preview: () => Promise.reject(new Error("nobody looks for a node: all is as it should be")) },
    calls: { call: () => Promise.reject(new Error("nobody is asked: all is as it should be")) },
    clock,
    signs: { silentMs: () => undefined, isAwaited: () => false },
    log: quietLog,
    taskEnd: () => Promise.resolve(),
    newRequestId: () => "r",
    recordEvent: () => undefined,
  });
  // The first one notes down which lines there are.
  await keeper.look(signal);
  const begun = process.cpuUsage();
  for (let looks = 0; looks < 5; looks++) await keeper.look(signal);
  return process.cpuUsage(begun).user / count;
}

test("looking after many takes as many times what few take, and not the square of it", async () => {
  await cost(200);
  const few = await cost(200);
  expect((await cost(1_600)) / few).toBeLessThan(4);
});
