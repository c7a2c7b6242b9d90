import { afterEach, describe, expect, test } from "vitest";
import { moveCollection } from "@gpve/domain/guest/guest-move.ts";
import type { NodeBoard } from "@gpve/domain/node/runtime.ts";
import type { ClusterStandby } from "@gpve/domain/vcluster/standby/standby.ts";
import { vclusterCollection } from "@gpve/domain/vcluster/vcluster-record.ts";
import type { VirtualClusterRuntime } from "@gpve/domain/vcluster/vcluster-runtime.ts";
import { readVirtualClusterSpec } from "@gpve/domain/vcluster/vcluster-spec.ts";
import { FakeClock } from "@gpve/kit/testing/fake-clock.ts";
import { openSqliteStore } from "@gpve/store/sqlite/sqlite-store.ts";
import { openQuotaServer } from "../../../testing/quota-world.ts";
import { standDown } from "./stand-down.ts";

let closeServer = async (): Promise<unknown> => undefined;
afterEach(() => closeServer());

const asked = { requestId: "r", signal: new AbortController().signal };
const standby = {
  node: "b",
  of: "a",
  generation: 7,
  mode: "stream",
  version: "1.36.4",
  inSync: true,
  since: 5,
} as const satisfies ClusterStandby;

async function world(tier: string, more: { readonly standby?: ClusterStandby } = { standby }) {
  const clock = new FakeClock(1_000_000);
  const local = { node: "a", call: () => Promise.reject(new Error("not asked")) };
  const server = await openQuotaServer(openSqliteStore({ path: ":memory:" }), {
    owner: "s1",
    clock,
    node: local,
  });
  closeServer = () => server.close();
  const { records } = server;
  await records.transact((tx) => {
    const spec = readVirtualClusterSpec({ controlPlane: { tier } });
    tx.put(vclusterCollection, "demo", {
      name: "demo",
      tenant: "shop",
      node: "a",
      spec,
      madeBy: "r",
      ...more,
    });
  });
  const row: { now: Partial<VirtualClusterRuntime> } = {
    now: {
      power: "hot",
      standby: { ...standby, isJoined: true, isConnected: true, revision: 9, confirmed: 9 },
    },
  };
  const board = {
    get: () => ({ report: { vclusters: [{ name: "demo", ...row.now }] } }),
    list: () => [],
    generation: () => 1,
  } as unknown as NodeBoard;
  const told: { node: string; generation: number; mode: string }[] = [];
  const calls = {
    call: async (node: string, _route: string, params: object) => {
      const said = params as { generation: number; mode: string };
      // By then nobody goes on from the standby any more.
      expect(records.collection(vclusterCollection).get("demo")?.value.standby?.inSync).toBe(false);
      told.push({ node, generation: said.generation, mode: said.mode });
      return { data: null } as never;
    },
  };
  const record = () => records.collection(vclusterCollection).get("demo")?.value;
  const notes = () => records.collection(moveCollection).list();
  return { down: standDown({ records, board, calls, clock }), clock, row, told, record, notes };
}

/** Which generation it was told, once it was. */
const toldGeneration = async (told: readonly { generation: number }[]): Promise<number> => {
  await expect.poll(() => told.length).toBe(1);
  return told[0]?.generation ?? 0;
};

describe("an etcd that is to be dealt with as one node has it", () => {
  test("goes on alone first, and its record says so before it is told", async () => {
    const { down, clock, row, told, record } = await world("Performance");
    let isDone = false;
    const waiting = down("demo", asked).then(() => (isDone = true));
    const generation = await toldGeneration(told);
    expect(told).toEqual([{ node: "a", generation, mode: "solo" }]);
    expect(generation).toBeGreaterThan(7);
    expect(record()?.standby).toMatchObject({ generation, mode: "solo", inSync: false, since: 1_000_000 });
    // It has not gone on alone yet.
    const still = { generation, isJoined: true, isConnected: false, revision: 9, confirmed: 0 };
    row.now = { power: "hot", standby: still };
    await clock.advance(1_000);
    expect(isDone).toBe(false);
    row.now = { power: "hot", standby: { ...still, isJoined: false } };
    await clock.advance(1_000);
    await waiting;
  });

  test("is not dealt with while it does not", async () => {
    const { down, clock, told } = await world("Performance");
    const waiting = down("demo", asked).then(
      () => "done",
      (err: unknown) => String(err),
    );
    await toldGeneration(told);
    for (let at = 0; at < 125; at++) await clock.advance(500);
    expect(await waiting).toContain("does not go on alone within 60 s");
  });

  test("that does not run begins that way, and whoever has none, or another store, is not asked", async () => {
    const cold = await world("Performance");
    cold.row.now = { power: "cold" };
    await cold.down("demo", asked);
    expect(cold.told).toHaveLength(1);
    for (const [tier, more] of [
      ["Performance", {}],
      ["Performance", { standby: { ...standby, of: "c" } }],
      ["Standard", { standby }],
    ] as const) {
      await closeServer();
      const { down, told, record } = await world(tier, more);
      await down("demo", asked);
      expect([told, record()?.standby]).toEqual([[], "standby" in more ? more.standby : undefined]);
    }
  });
});
