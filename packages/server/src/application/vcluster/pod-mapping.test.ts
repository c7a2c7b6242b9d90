import { expect, test } from "vitest";
import { MappedPodSchema } from "@gpve/contracts/v1/vc-answers.ts";
import type { RequestContext } from "@gpve/domain/request/context.ts";
import { AgentUnreachable } from "@gpve/domain/node/agent-port.ts";
import type { NodeBoard } from "@gpve/domain/node/runtime.ts";
import { vclusterCollection } from "@gpve/domain/vcluster/vcluster-record.ts";
import { readVirtualClusterSpec } from "@gpve/domain/vcluster/vcluster-spec.ts";
import { MemoryRecords } from "../../testing/memory-records.ts";
import { Validator } from "../v1/validation.ts";
import { PodMapping } from "./pod-mapping.ts";

const ctx = {} as RequestContext;
const row = { vcluster: "demo", tenant: "t", vnode: "worker-1", namespace: "default", name: "web", uid: "u" };

async function world(usage?: object) {
  const records = new MemoryRecords();
  const spec = readVirtualClusterSpec({});
  await records.transact((tx) =>
    tx.put(vclusterCollection, "demo", { name: "demo", tenant: "t", node: "n1", spec, madeBy: "" }),
  );
  const board = {
    get: () => ({ report: usage === undefined ? undefined : { usage } }),
  } as unknown as NodeBoard;
  const calls = { call: async () => ({ data: [row] }) } as unknown as ConstructorParameters<
    typeof PodMapping
  >[0]["calls"];
  return new PodMapping({ records, board, calls });
}

test("a pod is on a worker, and that on a node with so much to do", async () => {
  const usage = { cpu: 0.5, memory: { used: 1, total: 2 }, loadavg: [1, 2, 3] };
  const mapping = await world(usage);
  const asked = { vcluster: "demo", pod: "web", namespace: "default" };
  const nodeUsage = { cpu: 0.5, memoryUsedBytes: 1, memoryTotalBytes: 2, load: [1, 2, 3] };
  const mapped = await mapping.of(asked, ctx);
  expect(mapped).toMatchObject({ vnode: "worker-1", node: "n1", nodeUsage });
  expect(new Validator().check(MappedPodSchema, mapped, "the answer")).toEqual(mapped);
  expect(await (await world()).on("n1", ctx)).toEqual([
    { vcluster: "demo", tenant: "t", vnode: "worker-1", namespace: "default", pod: "web", node: "n1" },
  ]);
  await expect(mapping.of({ ...asked, pod: "x" }, ctx)).rejects.toThrow("no pod 'x' in namespace 'default'");
  await expect(mapping.of({ ...asked, vcluster: "no" }, ctx)).rejects.toThrow("there is no VirtualCluster");
});

test("a pod of a node that is there is found while another node of its cluster is away", async () => {
  const records = new MemoryRecords();
  const spec = readVirtualClusterSpec({});
  const nodes = ["n1", "n2"].map((node) => ({ node, address: "192.0.2.1" }));
  await records.transact((tx) =>
    tx.put(vclusterCollection, "demo", {
      name: "demo",
      tenant: "t",
      node: "n1",
      spec,
      spread: { network: 1, nodes },
      madeBy: "",
    }),
  );
  const calls = {
    call: async (node: string) => {
      if (node === "n1") throw new AgentUnreachable(595, "No route to host");
      return { data: [row] };
    },
  } as unknown as ConstructorParameters<typeof PodMapping>[0]["calls"];
  const board = { get: () => undefined } as unknown as NodeBoard;
  const mapping = new PodMapping({ records, board, calls });
  const asked = { vcluster: "demo", pod: "web", namespace: "default" };
  expect(await mapping.of(asked, ctx)).toMatchObject({ node: "n2" });
  // It may be on the one that nobody can ask.
  await expect(mapping.of({ ...asked, pod: "x" }, ctx)).rejects.toThrow("No route to host");
});
