import { expect, it } from "vitest";
import { emptyManagerStatus, type ManagerStatus, type ServiceStatus } from "./model.ts";
import { ServiceRebalancer } from "./rebalancer.ts";
import type { ServiceStep } from "./service-step.ts";

/** Four services alike on n1, one on n2, and none on n3. */
function commands(closed: readonly string[]): readonly string[] {
  const nodes = { "vm:1": "n1", "vm:2": "n1", "vm:3": "n1", "vm:4": "n1", "vm:5": "n2" };
  const services = Object.fromEntries(
    Object.entries(nodes).map(([sid, node]): [string, ServiceStatus] => [
      sid,
      { state: "started", node, uid: sid },
    ]),
  );
  const status: ManagerStatus = { ...emptyManagerStatus(), services };
  const context = {
    env: {
      settings: () => ({
        scheduler: "static",
        autoRebalance: { threshold: 0.1, margin: 0.1, holdRounds: 1, method: "bruteforce" },
      }),
      serviceLoad: () => ({ cpu: 1, memory: 1 }),
      nodeCapacity: () => ({ cpu: 8, memory: 8 }),
      log: () => undefined,
    },
    config: new Map(Object.keys(services).map((sid) => [sid, { autoRebalance: true }])),
    placement: () => ({
      rules: { nodeAffinity: new Map(), apart: new Map(), together: new Map() },
      online: ["n1", "n2", "n3"],
      closed: new Set(closed),
      services,
    }),
  } as unknown as ServiceStep;
  return new ServiceRebalancer().round(context, status);
}

it("evens nodes out", () => {
  expect(commands([])).toEqual(["migrate vm:1 n3"]);
});

it("leaves closed nodes out of it: they get nobody, and keep whom they have", () => {
  expect(commands(["n3"])).toEqual(["migrate vm:1 n2"]);
  expect(commands(["n1"])).toEqual([]);
  expect(commands(["n2", "n3"])).toEqual([]);
});
