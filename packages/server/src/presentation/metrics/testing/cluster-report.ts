// A node that tells everything of a virtual cluster that it can tell.
import type { NodeBoard } from "@gpve/domain/node/runtime.ts";

const runtime = {
  name: "demo",
  phase: "Running",
  power: "warm",
  memoryBytes: 5,
  cpuSeconds: 1.5,
  wakes: 2,
  lastWakeMs: 62,
  pods: { default: 3 },
  requests: { list: { count: 4, seconds: 0.25, buckets: { "1": 4, "0.05": 2 } } },
};

export const boardOf = (health: string): NodeBoard =>
  ({ get: () => ({ health, report: { vclusters: [runtime] } }) }) as unknown as NodeBoard;
export const boardWithCluster = boardOf("online");
export const oneCluster = { value: { name: "demo", tenant: "shop", node: "n1" } };
