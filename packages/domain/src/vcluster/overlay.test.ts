import { describe, expect, test } from "vitest";
import { partsOf } from "./etcd.ts";
import { nodesOf } from "./vcluster-record.ts";
import {
  type ClusterOverlay,
  type ClusterSpread,
  gatewayNumber,
  isBranch,
  isOwnSlot,
  movedSpread,
  overlayOn,
  type OverlayNode,
  overlayPeers,
  overlayVni,
  recoveredSpread,
  trimmedSpread,
  withMovedWorker,
  withNode,
  workerNode,
  workerNodes,
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

  test("that goes on elsewhere has the workers of the lost node there, and everybody's place stays", () => {
    const slots = [0, 1, 2, 3];
    const owners = (spread: ClusterSpread) => slots.map((slot) => workerNode(spread, slot));
    const d: OverlayNode = { node: "d", address: "192.0.2.4" };
    const outside = recoveredSpread({ nodes, dealt: 3 }, "a", d);
    expect(outside).toEqual({ nodes: [d, nodes[1], nodes[2]], home: 0, dealt: 3 });
    expect(owners(outside)).toEqual(["d", "b", "c", "d"]);
    // By a node that has workers of it already.
    const inside = recoveredSpread({ nodes, moved: [{ slot: 1, node: "a" }] }, "a", nodes[2] ?? d);
    expect(inside.nodes.map(({ node, standsIn }) => [node, standsIn])).toEqual([
      ["c", true],
      ["b", undefined],
      ["c", undefined],
    ]);
    expect(inside.home).toBe(2);
    expect(owners(inside)).toEqual(["c", "c", "c", "c"]);
    const there = overlayOn(inside, "c");
    expect(there).toMatchObject({ at: 2, home: 2 });
    expect(isBranch({ overlay: there ?? on(0) })).toBe(false);
    expect(overlayPeers(there ?? on(0))).toEqual(["192.0.2.2"]);
    expect(overlayPeers(overlayOn(inside, "b") ?? on(0))).toEqual(["192.0.2.3"]);
    expect(nodesOf({ node: "c", spread: { ...inside, network: 1 } })).toEqual(["c", "b"]);
    expect([overlayOn(inside, "a"), overlayOn(undefined, "a")]).toEqual([undefined, undefined]);
  });

  test("has a worker where it was moved to, also when its control plane moves", () => {
    const d: OverlayNode = { node: "d", address: "192.0.2.4" };
    const one = { nodes: nodes.slice(0, 1), dealt: 1 };
    const moved = withMovedWorker(one, 0, d);
    expect(moved).toEqual({ nodes: [nodes[0], d], dealt: 1, moved: [{ slot: 0, node: "d" }] });
    expect([0, 1].map((slot) => workerNode(moved, slot))).toEqual(["d", "a"]);
    expect(isOwnSlot({ ...moved, at: 1 }, 0)).toBe(true);
    expect(isOwnSlot({ ...moved, at: 0 }, 0)).toBe(false);
    expect(movedSpread(moved, nodes[0] ?? d)).toEqual({ ...moved, home: 0 });
    // Back to where it was dealt to.
    const back = withMovedWorker(moved, 0, nodes[0] ?? d);
    expect(back).toEqual({ nodes: [nodes[0], d], dealt: 1 });
    expect(trimmedSpread(back).nodes).toEqual([nodes[0]]);
    expect(trimmedSpread(moved)).toEqual(moved);
    expect(withNode(moved, d)).toBe(moved);
    expect([
      workerNodes({ ...moved, at: 0 }),
      workerNodes({ ...back, at: 0 }),
      workerNodes(undefined),
    ]).toEqual([2, 1, 1]);
  });
});
