import { describe, expect, test } from "vitest";
import { partsOf } from "./etcd.ts";
import { nodesOf } from "./vcluster-record.ts";
import {
  type ClusterOverlay,
  gatewayNumber,
  isBranch,
  isOwnSlot,
  movedSpread,
  type OverlayNode,
  overlayPeers,
  overlayVni,
} from "./overlay.ts";

const nodes = ["a", "b", "c"].map((node, at) => ({ node, address: `192.0.2.${at + 1}` }));
const on = (at: number): ClusterOverlay => ({ nodes, at });

describe("a cluster on several nodes", () => {
  test("has each worker on one of them, the first where its control plane is", () => {
    const slots = [0, 1, 2, 3, 4];
    expect([0, 1, 2].map((at) => slots.filter((slot) => isOwnSlot(on(at), slot)))).toEqual([
      [0, 3],
      [1, 4],
      [2],
    ]);
    expect(slots.every((slot) => isOwnSlot(undefined, slot))).toBe(true);
  });

  test("has its control plane on the first alone", () => {
    const spec = { backingStore: "sqlite" } as const;
    expect([0, 1].map((at) => partsOf({ spec, overlay: on(at) }).length)).toEqual([3, 0]);
    expect([isBranch({}), isBranch({ overlay: on(0) }), isBranch({ overlay: on(2) })]).toEqual([
      false,
      false,
      true,
    ]);
  });

  test("of several replicas has a whole control plane on each, and before it the way of workers to the others", () => {
    const spec = { backingStore: "etcd" } as const;
    const replicas = nodes.map((each, slot) => ({ ...each, slot }));
    for (const at of [0, 1, 2])
      expect(partsOf({ spec, overlay: { nodes: replicas, at } })).toEqual([
        "api-balancer",
        "etcd",
        "kube-apiserver",
        "kube-controller-manager",
        "kube-scheduler",
      ]);
  });

  test("gives each node an address of its own in the network, and a network of its own to each cluster", () => {
    expect([gatewayNumber(undefined), ...[0, 1, 2].map((at) => gatewayNumber(on(at)))]).toEqual([
      1, 1, 254, 253,
    ]);
    expect(overlayPeers(on(1))).toEqual(["192.0.2.1", "192.0.2.3"]);
    expect(overlayVni(2048)).not.toBe(overlayVni(2049));
  });
});

describe("a control plane that moves", () => {
  test("leaves workers and addresses where they are", () => {
    const moved = movedSpread({ nodes }, { node: "b", address: "192.0.2.2" });
    expect(moved).toEqual({ nodes, home: 1, dealt: 3 });
    expect([0, 1, 2].map((at) => isBranch({ overlay: { ...moved, at } }))).toEqual([true, false, true]);
    expect(isOwnSlot({ ...moved, at: 0 }, 3)).toBe(true);
    expect(gatewayNumber({ ...moved, at: 0 })).toBe(1);
    expect(nodesOf({ node: "b", spread: { ...moved, network: 2048 } })).toEqual(["b", "a", "c"]);
  });

  test("goes to a node without workers and back, and that one is none of its nodes any more", () => {
    const [a, b, c] = ["a", "b", "c"].map((node) => ({ node, address: "192.0.2.1" })) as [
      OverlayNode,
      OverlayNode,
      OverlayNode,
    ];
    const away = movedSpread({ nodes: [a], dealt: 1 }, b);
    expect(away).toEqual({ nodes: [a, b], home: 1, dealt: 1 });
    expect([0, 1, 2].map((slot) => isOwnSlot({ ...away, at: 0 }, slot))).toEqual([true, true, true]);
    expect(isOwnSlot({ ...away, at: 1 }, 1)).toBe(false);
    expect(movedSpread(away, a)).toEqual({ nodes: [a], home: 0, dealt: 1 });
    expect(movedSpread(away, c).nodes.map(({ node }) => node)).toEqual(["a", "b", "c"]);
  });
});
