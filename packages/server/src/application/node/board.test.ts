import { given } from "@gpve/contracts/given.ts";
import type { NodeFacts, NodeReport } from "@gpve/domain/node/runtime.ts";
import { FakeClock } from "@gpve/kit/testing/fake-clock.ts";
import { beforeEach, describe, expect, test } from "vitest";
import { MemoryRecords } from "../../testing/memory-records.ts";
import { MemoryNodeBoard } from "./board.ts";
import { nodeRecords } from "./collections.ts";
import { Membership } from "./membership.ts";

const report = (node: string, facts?: NodeFacts): NodeReport => ({
  node,
  at: 1,
  agentVersion: "1",
  usage: {} as NodeReport["usage"],
  guests: [],
  storages: [],
  ...given({ facts }),
});
const facts = { hostname: "h" } as NodeFacts;

let clock: FakeClock;
let records: MemoryRecords;
let membership: Membership;
let board: MemoryNodeBoard;

beforeEach(async () => {
  clock = new FakeClock();
  records = new MemoryRecords();
  membership = new Membership({
    records,
    clock,
    board: { get: () => undefined },
    random: (n) => new Uint8Array(n),
    serves: async () => false,
    issuer: {
      caPem: "",
      caFingerprint: "AA",
      keyFingerprint: () => Promise.resolve(""),
      issueAgent: () => Promise.resolve({ certPem: "", fingerprint: "" }),
    },
  });
  await membership.enrolLocal("b", "10.0.0.2", 1, "F");
  await membership.enrolLocal("a", "10.0.0.1", 1, "F");
  board = new MemoryNodeBoard({ clock, nodes: records.collection(nodeRecords) });
});

describe("the node board", () => {
  test("lists the nodes of the records by name, unknown until they speak or stay silent", async () => {
    const stop = board.start();
    expect(board.list().map((view) => [view.node, view.health])).toEqual([
      ["a", "unknown"],
      ["b", "unknown"],
    ]);
    await clock.advance(7_000);
    expect(board.list().map((view) => view.health)).toEqual(["offline", "offline"]);
    stop();
  });

  test("a silent node is offline within ten seconds and back with its next heartbeat", async () => {
    const stop = board.start();
    const seen: string[] = [];
    board.onChange((view) => seen.push(`${view.node} ${view.health}`));
    board.accept(report("a", facts));
    for (let i = 0; i < 5; i++) {
      await clock.advance(2_000);
      board.heartbeat("a");
    }
    expect(board.get("a")?.health).toBe("online");
    await clock.advance(9_000);
    expect(board.get("a")?.health).toBe("offline");
    board.heartbeat("a");
    expect(board.get("a")).toMatchObject({ health: "online", facts, lastSeen: clock.now() });
    expect(seen).toEqual(["a online", "b offline", "a offline", "a online"]);
    stop();
  });

  test("waits for an agent that said goodbye until it says hello, or a minute is over", async () => {
    const software = { version: "1", serverVersion: "1", protocol: 4 };
    expect(board.isAwaited("a")).toBe(false);
    board.goodbye("a");
    board.goodbye("x");
    // A sign of life that was on its way does not mean that it is back.
    board.heartbeat("a");
    expect([board.isAwaited("a"), board.isAwaited("b"), board.isAwaited("x")]).toEqual([true, false, false]);
    board.hello("a", software);
    board.hello("x", software);
    expect(board.isAwaited("a")).toBe(false);
    expect(board.get("a")).toMatchObject({ health: "online", software });
    board.goodbye("a");
    await clock.advance(61_000);
    expect(board.isAwaited("a")).toBe(false);
  });

  test("shows why an agent was refused, and forgets it when the two get along", () => {
    const refused = { version: "0", serverVersion: "1", refused: "upgrade the agent" };
    const seen: string[] = [];
    board.onChange(({ node }) => seen.push(node));
    for (const node of ["a", "a", "x"]) board.refuse(node, refused);
    expect(seen).toEqual(["a"]);
    expect(board.get("a")).toMatchObject({ health: "unknown", software: refused });
    board.hello("a", { version: "1", serverVersion: "1", protocol: 4 });
    expect(board.get("a")?.software?.refused).toBeUndefined();
  });

  test("keeps facts that later reports leave out, and asks for them when it has none", () => {
    expect(board.wantsFacts("a")).toBe(true);
    board.accept(report("a", facts));
    board.accept(report("a"));
    expect(board.wantsFacts("a")).toBe(false);
    expect(board.get("a")?.facts).toBe(facts);
  });

  test("ignores nodes that are no members and forgets removed ones", async () => {
    const stop = board.start();
    board.heartbeat("x");
    board.accept(report("x"));
    expect(board.get("x")).toBeUndefined();
    const before = board.generation();
    await records.transact((tx) => tx.delete(nodeRecords, "a"));
    expect(board.get("a")).toBeUndefined();
    expect(board.list()).toHaveLength(1);
    expect(board.generation()).toBeGreaterThan(before);
    stop();
    await membership.enrolLocal("c", "10.0.0.3", 1, "F");
    expect(board.get("c")?.health).toBe("unknown");
  });

  test("the same list object stays until something changes", () => {
    const list = board.list();
    expect(board.list()).toBe(list);
    board.accept(report("a"));
    expect(board.list()).not.toBe(list);
  });

  test("enrolling the local node again with the same facts writes nothing; ids stay", async () => {
    const revision = records.revision();
    await membership.enrolLocal("a", "10.0.0.1", 1, "F");
    expect(records.revision()).toBe(revision);
    await membership.enrolLocal("a", "10.0.0.9", 2, "F");
    expect(records.collection(nodeRecords).get("a")?.value).toMatchObject({ nodeid: 2, address: "10.0.0.9" });
    await expect(membership.enrolLocal("a", "bad address", 2, "F")).rejects.toThrow(/address/);
    await expect(membership.enrolLocal("a", "x", 0, "F")).rejects.toThrow(/port/);
    await expect(membership.hello("nobody", "", "x", 1)).rejects.toThrow(/not a member/);
  });
});
