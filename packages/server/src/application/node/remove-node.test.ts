import { expect, test } from "vitest";
import { vclusterCollection } from "@gpve/domain/vcluster/vcluster-record.ts";
import { readVirtualClusterSpec } from "@gpve/domain/vcluster/vcluster-spec.ts";
import { SchedulerWorld } from "../../testing/scheduler-world.ts";
import { nodeRecords } from "./collections.ts";
import { removeNode } from "./remove-node.ts";

test("a node with parts of virtual clusters goes only by force", async () => {
  const world = await SchedulerWorld.with(["n1", "n2", "n3"]);
  const base = { tenant: "shop", spec: readVirtualClusterSpec({}), madeBy: "r" };
  const nodes = ["n1", "n2"].map((node) => ({ node, address: "10.0.0.1" }));
  await world.records.transact((tx) => {
    tx.put(vclusterCollection, "web", { ...base, name: "web", node: "n1" });
    tx.put(vclusterCollection, "wide", {
      ...base,
      name: "wide",
      node: "n1",
      spread: { network: 2048, nodes },
    });
  });
  const remove = (node: string, force = false) =>
    world.records.transact((tx) => removeNode(tx, { node, force, ownNode: undefined }));
  await expect(remove("n1")).rejects.toThrow("still has parts of 2 virtual clusters: shop/web, shop/wide");
  await expect(remove("n2")).rejects.toThrow("still has a part of a virtual cluster: shop/wide");
  await remove("n3");
  await remove("n2", true);
  expect(
    world.records
      .collection(nodeRecords)
      .list()
      .map(({ id }) => id),
  ).toEqual(["n1"]);
  world.stop();
});
