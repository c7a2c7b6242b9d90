import { expect, test } from "vitest";
import { moveCollection } from "@gpve/domain/guest/guest-move.ts";
import type { VirtualClusterRecord } from "@gpve/domain/vcluster/vcluster-record.ts";
import { readVirtualClusterSpec } from "@gpve/domain/vcluster/vcluster-spec.ts";
import { FakeClock } from "@gpve/kit/testing/fake-clock.ts";
import { openSqliteStore } from "@gpve/store/sqlite/sqlite-store.ts";
import { openQuotaServer } from "../../../testing/quota-world.ts";
import { nodeRecords } from "../../node/collections.ts";
import { noteVolumes } from "./note-volumes.ts";
import { joinedNode } from "../../../testing/joined-node.ts";

const record: VirtualClusterRecord = {
  name: "demo",
  tenant: "default",
  node: "a",
  spec: readVirtualClusterSpec({ workerNodes: { count: 2 } }),
  madeBy: "r",
};

test("the node that makes a backup may ask the others of its cluster, and nobody else, for volumes", async () => {
  const clock = new FakeClock(1_000_000);
  const server = await openQuotaServer(openSqliteStore({ path: ":memory:" }), {
    owner: "s1",
    clock,
    node: { node: "a", call: () => Promise.reject(new Error("not asked")) },
  });
  const { records } = server;
  await records.transact((tx) => {
    for (const [at, name] of ["a", "b", "c"].entries())
      tx.put(nodeRecords, name, joinedNode(name, { nodeid: at + 1, address: `192.0.2.${at + 1}` }));
  });
  const notes = () => records.collection(moveCollection).list();
  expect(await noteVolumes({ records, clock }, record, "a", "r1")).toEqual({});
  expect(notes()).toEqual([]);
  // A node that is not in the cluster any more has nothing that could be asked for.
  const nodes = ["b", "a", "gone"].map((node) => ({ node, address: "192.0.2.1" }));
  const wide = { ...record, spread: { network: 2048, nodes, home: 1 } };
  const moveId = "volumes-r1-b";
  expect(await noteVolumes({ records, clock }, wide, "a", "r1")).toEqual({
    volumesFrom: [{ node: "b", moveId }],
  });
  expect(notes()).toMatchObject([
    {
      value: { id: moveId, from: { node: "a" }, to: { node: "b" }, purpose: "volumes", vcluster: "demo" },
    },
  ]);
  await server.close();
});
