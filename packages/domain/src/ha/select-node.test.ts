import { expect, it } from "vitest";
import type { ServiceConfig, ServiceStatus } from "./model.ts";
import { selectNode, type Placement, type SelectMode } from "./select-node.ts";

const config: ServiceConfig = {
  node: "n1",
  state: "started",
  maxRestart: 1,
  maxRelocate: 1,
  failback: true,
  autoRebalance: false,
};

interface Situation {
  readonly at?: string;
  readonly closed?: readonly string[];
  /** Nodes of its rule, with their priorities. */
  readonly nodes?: Readonly<Record<string, number>>;
  readonly strict?: boolean;
  readonly service?: Partial<ServiceStatus>;
  /** Where the one is that it belongs with. */
  readonly mateAt?: string;
  /** Where the one is that it keeps away from. */
  readonly enemyAt?: string;
}

function chosen(mode: SelectMode, situation: Situation): string | undefined {
  const { at = "n3", closed, nodes, strict = false, mateAt, enemyAt } = situation;
  const sid = "vm:100";
  const service: ServiceStatus = { state: "started", node: at, uid: "1", ...situation.service };
  const mate: ServiceStatus = { state: "started", node: mateAt ?? "", uid: "2" };
  const enemy: ServiceStatus = { state: "started", node: enemyAt ?? "", uid: "3" };
  const placement = {
    rules: {
      nodeAffinity:
        nodes === undefined ? new Map() : new Map([[sid, { strict, nodes: new Map(Object.entries(nodes)) }]]),
      apart: enemyAt === undefined ? new Map() : new Map([[sid, new Set(["vm:102"])]]),
      together: mateAt === undefined ? new Map() : new Map([[sid, new Set(["vm:101"])]]),
    },
    usage: {
      scores: () =>
        new Map([
          ["n1", 3],
          ["n2", 1],
          ["n3", 2],
        ]),
    },
    online: ["n1", "n2", "n3"].filter((node) => mode !== "recover" || node !== at),
    closed: closed === undefined ? undefined : new Set(closed),
    services: {
      [sid]: service,
      ...(mateAt === undefined ? {} : { "vm:101": mate }),
      ...(enemyAt === undefined ? {} : { "vm:102": enemy }),
    },
    config: new Map([[sid, config]]),
  } as unknown as Placement;
  return selectNode(placement, sid, service, config, mode);
}

it("sends nobody to a closed node while another may have it", () => {
  expect(chosen("recover", { at: "n3" })).toBe("n2");
  expect(chosen("recover", { at: "n3", closed: ["n2"] })).toBe("n1");
  expect(chosen("best", { at: "n1", closed: ["n2"] })).toBe("n3");
  expect(chosen("next", { at: "n3", closed: ["n2"], service: { failedNodes: ["n3"] } })).toBe("n1");
  expect(chosen("recover", { at: "n1", closed: ["n2"], nodes: { n2: 5, n3: 1 } })).toBe("n3");
});

it("takes a closed node as the last resort", () => {
  expect(chosen("recover", { at: "n3", closed: ["n1", "n2"] })).toBe("n2");
  expect(chosen("stay", { at: "n3", closed: ["n2"], nodes: { n2: 1 }, strict: true })).toBe("n2");
  expect(chosen("next", { closed: ["n2"], service: { failedNodes: ["n1", "n3"] } })).toBe("n2");
});

it("takes a closed node where the open ones are none that it waits for", () => {
  // It leaves a node in maintenance: n1 is taken, and n3 is worse than what its rule wants.
  expect(chosen("stay", { at: "n4", closed: ["n2"], nodes: { n1: 2, n2: 2, n3: 1 }, enemyAt: "n1" })).toBe(
    "n2",
  );
});

it("brings nobody back to a closed node, for a rule, for company or as its home", () => {
  const ways: readonly Situation[] = [
    { nodes: { n2: 5, n3: 1 } },
    { mateAt: "n2" },
    { service: { maintenanceNode: "n2" } },
  ];
  for (const way of ways) {
    expect(chosen("stay", way)).toBe("n2");
    expect(chosen("stay", { ...way, closed: ["n2"] })).toBe("n3");
  }
});

it("leaves whoever is on a closed node where it is", () => {
  expect(chosen("stay", { at: "n2", closed: ["n2"] })).toBe("n2");
  expect(chosen("best", { at: "n2", closed: ["n2"], nodes: { n2: 1 } })).toBe("n2");
});
