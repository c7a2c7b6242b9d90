import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { readVirtualClusterSpec } from "../vcluster-spec.ts";
import {
  type EtcdPairNote,
  hasSingleEtcd,
  isMemberName,
  isShared,
  nextPairStep,
  type PairMember,
  pairPeerUrl,
  pairStart,
  type SeenPair,
  standbyMember,
} from "./etcd-pair.ts";

const wish = (generation: number, mode: "stream" | "solo" = "stream") => ({ generation, mode, boundMs: 0 });
const own: PairMember = { id: "1", peerUrls: ["unix://first:0"], isLearner: false };
const other = (generation: number, isLearner: boolean): PairMember => ({
  id: `${generation}`,
  peerUrls: [pairPeerUrl(standbyMember(generation))],
  isLearner,
});
const asked = (...others: readonly PairMember[]) => ({ ownId: "1", members: [own, ...others] });
const seen: SeenPair = {
  note: { wish: wish(7) },
  asked: asked(),
  alone: undefined,
  hasSocket: true,
  isThere: true,
};
const step = (more: Partial<SeenPair>) => nextPairStep({ ...seen, ...more });

describe("an etcd with a standby", () => {
  test("adds it when its node is there, and gives it a vote", () => {
    expect(step({ isThere: false })).toBeUndefined();
    expect(step({})).toEqual({ do: "add" });
    expect(step({ asked: asked(other(7, true)), isThere: false })).toBeUndefined();
    expect(step({ asked: asked(other(7, true)) })).toEqual({ do: "promote", id: "7" });
    const note = { wish: wish(7), shared: 7 };
    expect(step({ note, asked: asked(other(7, true)) })).toEqual({ do: "promote", id: "7" });
    expect(step({ note, asked: asked(other(7, false)) })).toBeUndefined();
  });

  test("waits for it, whatever happens to itself, until a server has said otherwise", () => {
    const note = { wish: wish(7), shared: 7 };
    expect(step({ note, asked: undefined, isThere: false })).toBeUndefined();
    expect(step({ note, asked: asked(other(7, false)), isThere: false })).toBeUndefined();
    expect(pairStart(note)).toEqual({ name: "first" });
  });

  test("goes on alone when that is said, also when it does not answer, and once", () => {
    const note = { wish: wish(8, "solo"), shared: 7 };
    expect(step({ note, asked: asked(other(7, false)) })).toEqual({ do: "alone" });
    expect(step({ note, asked: undefined })).toEqual({ do: "alone" });
    expect(pairStart(note).alone).toBe(7);
    // It has been started for that, and has not answered yet.
    expect(step({ note, asked: undefined, alone: 7 })).toBeUndefined();
    // One that was started for another one before has that of now to get rid of.
    expect(step({ note, asked: undefined, alone: 5 })).toEqual({ do: "alone" });
    expect(step({ note, asked: asked(), alone: 7 })).toEqual({ do: "settle" });
    expect(step({ note: { wish: wish(8, "solo") }, alone: 7 })).toBeUndefined();
  });

  test("is rid of one that was given up before it has another", () => {
    expect(step({ asked: asked(other(5, true)) })).toEqual({ do: "remove", id: "5" });
    expect(step({ asked: asked(other(5, false)) })).toEqual({ do: "alone" });
    expect(step({ note: { wish: wish(7), shared: 5 }, asked: undefined })).toEqual({ do: "alone" });
    expect(step({ note: { wish: wish(8, "solo") }, asked: asked(other(7, true)) })).toEqual({
      do: "remove",
      id: "7",
    });
  });

  test("of another node begins there with a socket of its own", () => {
    // It came by a move, or from a version that had none.
    const moved = { ownId: "1", members: [{ ...own, peerUrls: ["https://100.80.0.2:2380"] }] };
    expect(step({ asked: moved })).toEqual({ do: "rename", id: "1" });
    expect(step({ hasSocket: false })).toEqual({ do: "restart" });
    // It goes on from a standby.
    const adopted = { member: "s7", shared: 7 };
    expect(pairStart(adopted)).toEqual({ name: "s7", alone: 7 });
    expect(step({ note: adopted, asked: asked(), alone: 7 })).toEqual({ do: "settle" });
    expect(step({ note: {}, asked: asked() })).toBeUndefined();
  });

  test("has members whose names can be those of sockets", () => {
    expect([standbyMember(Date.now()), "first", "s0"].map(isMemberName)).toEqual([true, true, true]);
    expect(["", "s", "../a", "first:0", "s1/../x", "S1"].some(isMemberName)).toBe(false);
  });
});

/** What a server has written down, and both members. Everything may be cut short, and nobody hears of it. */
interface World {
  record: { generation: number; mode: "stream" | "solo"; inSync: boolean };
  note: EtcdPairNote;
  /** Of the etcd of the control plane. */
  others: PairMember[];
  alone: number | undefined;
  line: boolean;
}

/** As etcd does it: who has a vote is asked by it, unless it was started to go on alone. */
function start(world: World): void {
  world.alone = pairStart(world.note).alone;
  if (world.alone !== undefined) world.others = [];
}

const canAnswer = ({ others, line }: World): boolean => others.every(({ isLearner }) => isLearner) || line;

function act(world: World, cutShort: boolean): void {
  const isThere = world.line && world.note.wish?.generation === world.record.generation;
  const answers = canAnswer(world) ? asked(...world.others) : undefined;
  const { note, alone } = world;
  const next = nextPairStep({ note, asked: answers, alone, hasSocket: true, isThere });
  if (next === undefined) return;
  if (next.do === "alone") world.note = { ...note, shared: note.shared ?? 0 };
  if (next.do === "promote" && !isShared(note)) world.note = { ...note, shared: note.wish?.generation ?? 0 };
  if (cutShort) return;
  if (next.do === "alone" || next.do === "restart") start(world);
  if (next.do === "settle") {
    const { shared: _gone, ...kept } = note;
    world.note = kept;
  }
  if (next.do === "add") world.others.push(other(note.wish?.generation ?? 0, true));
  if (next.do === "remove") world.others = world.others.filter(({ id }) => id !== next.id);
  if (next.do === "promote")
    world.others = world.others.map((each) => (each.id === next.id ? { ...each, isLearner: false } : each));
}

const event = fc.oneof(
  { weight: 8, arbitrary: fc.constant("look" as const) },
  { weight: 3, arbitrary: fc.constantFrom("tell" as const, "joined" as const, "heal" as const) },
  {
    weight: 1,
    arbitrary: fc.constantFrom(
      "look cut short",
      "start",
      "cut",
      "solo",
      "stream",
      "solo told",
      "stream told",
    ),
  },
);

test("whatever happens: where the cluster can go on from its standby, nothing is answered without that", () => {
  const counts = { inSync: 0, alone: 0 };
  fc.assert(
    fc.property(fc.array(event, { minLength: 10, maxLength: 120 }), (story) => {
      const world: World = {
        record: { generation: 10, mode: "stream", inSync: true },
        note: { wish: wish(10), shared: 10 },
        others: [other(10, false)],
        alone: undefined,
        line: true,
      };
      const { record } = world;
      for (const each of story) {
        if (each === "look") act(world, false);
        if (each === "look cut short") act(world, true);
        if (each === "start") start(world);
        if (each === "cut") world.line = false;
        // Lines are for one generation.
        if (each === "heal") world.line = world.note.wish?.mode === "stream";
        // The record comes first, and whoever is told hears of it later, or never.
        if (/^(?:solo|stream)/.test(each)) {
          const mode = each.startsWith("solo") ? "solo" : "stream";
          Object.assign(record, { generation: record.generation + 1, mode, inSync: false });
        }
        if (each.includes("tell") || each.endsWith("told")) {
          if (world.note.wish?.generation !== record.generation) world.line = record.mode === "stream";
          world.note = { ...world.note, wish: wish(record.generation, record.mode) };
        }
        const hasVote = world.others.some(({ id, isLearner }) => id === `${record.generation}` && !isLearner);
        const isTold = world.note.wish?.generation === record.generation && isShared(world.note);
        if (each === "joined" && hasVote && isTold && world.line) record.inSync = true;
        if (record.inSync) counts.inSync++;
        if (world.alone !== undefined) counts.alone++;
        // It needs the standby of this very generation, or it could have answered what that has not.
        if (record.inSync) expect(hasVote).toBe(true);
        // And whoever has a vote can be got rid of: it is written down.
        const voters = world.others.filter(({ isLearner }) => !isLearner);
        if (voters.length > 0) expect(world.note.shared).toBeDefined();
      }
    }),
    { numRuns: 2_000 },
  );
  expect(counts.inSync).toBeGreaterThan(1_000);
  expect(counts.alone).toBeGreaterThan(1_000);
});

describe("a cluster whose etcd a second member may join", () => {
  const spec = readVirtualClusterSpec({ controlPlane: { backingStore: "etcd" } });
  const nodes = ["a", "b"].map((node) => ({ node, address: "192.0.2.1" }));

  test("has an etcd of its own, and its control plane here", () => {
    expect(hasSingleEtcd({ spec, network: 4 })).toBe(true);
    expect(hasSingleEtcd({ spec, network: 4, overlay: { at: 0, nodes } })).toBe(true);
  });

  test.each([
    ["keeps its objects in SQLite", { spec: readVirtualClusterSpec({}), network: 4 }],
    ["is one of several replicas", { spec: { ...spec, replicas: 3 }, network: 4 }],
    ["has never had a network", { spec }],
    ["has nothing but workers here", { spec, network: 4, overlay: { at: 1, nodes } }],
  ])("is none that %s", (_why, cluster) => {
    expect(hasSingleEtcd(cluster)).toBe(false);
  });
});
