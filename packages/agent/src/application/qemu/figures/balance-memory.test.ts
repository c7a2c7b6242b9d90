import { afterEach, beforeEach, expect, it } from "vitest";
import { guestCollection, type GuestRecord } from "@gpve/domain/guest/guest-record.ts";
import { VmWorld } from "../../../testing/vm-world.ts";
import { balanceMemory } from "./balance-memory.ts";
import { runningVm } from "../running-vm.ts";

const MIB = 1024 ** 2;
const STEP = 100 * MIB;

let world: VmWorld;
beforeEach(async () => {
  world = await VmWorld.open();
});
afterEach(() => world.remove());

function guests(): GuestRecord[] {
  return world.records
    .collection(guestCollection)
    .list()
    .map(({ value }) => value);
}

/** A guest that has `actual` bytes and takes what it is told. */
function balloonOf(vmid: number, actual: number): number[] {
  const told: number[] = [];
  const qmp = world.guests.get(String(vmid))?.qmp;
  qmp?.answers.set("query-balloon", () => ({ actual }));
  qmp?.answers.set("balloon", (args) => {
    told.push((args as { value: number }).value);
    return {};
  });
  return told;
}

it("takes memory from guests that have a minimum and a weight, and from nobody else", async () => {
  await world.add(100, { memory: "2048", balloon: "512" });
  await world.add(101, { memory: "2048" });
  await world.add(102, { memory: "2048", balloon: "512", shares: "0" });
  await world.add(103, { memory: "2048", balloon: "512", lock: "migrate" });
  await world.add(104, { memory: "2048", balloon: "512" });
  await world.add(105, { memory: "2048", balloon: "512" });
  for (const vmid of [100, 101, 102, 103, 105]) await world.run(vmid);
  const told = new Map([100, 101, 102, 103].map((vmid) => [vmid, balloonOf(vmid, 2048 * MIB)]));
  world.guests.get("105")?.qmp.answers.set("query-balloon", () => {
    throw new Error("no balloon");
  });
  let used = 9000 * MIB;
  const deps = {
    process: (vmid: number) => runningVm(world.host, vmid),
    freeMemory: () => undefined,
    hostMemory: async () => ({ total: 10_000 * MIB, used }),
  };
  await balanceMemory(deps, guests());
  expect(Object.fromEntries(told)).toEqual({ 100: [2048 * MIB - STEP], 101: [], 102: [], 103: [] });
  // Enough for all: it has everything already.
  used = 1000 * MIB;
  await balanceMemory(deps, guests());
  expect(told.get(100)).toHaveLength(1);
});

it("asks who can spare something, and lives with guests that refuse", async () => {
  for (const vmid of [100, 101]) {
    await world.add(vmid, { memory: "2048", balloon: "512" });
    await world.run(vmid);
  }
  const [busy, idle] = [balloonOf(100, 2048 * MIB), balloonOf(101, 2048 * MIB)];
  const deps = {
    process: (vmid: number) => runningVm(world.host, vmid),
    freeMemory: (vmid: number) => (vmid === 101 ? 1024 * MIB : 10 * MIB),
    hostMemory: async () => ({ total: 10_000 * MIB, used: 9000 * MIB }),
  };
  await balanceMemory(deps, guests());
  expect([busy, idle]).toEqual([[], [2048 * MIB - STEP]]);
  world.guests.get("101")?.qmp.answers.set("balloon", () => {
    throw new Error("not now");
  });
  await balanceMemory(deps, guests());
  await balanceMemory(deps, []);
});
