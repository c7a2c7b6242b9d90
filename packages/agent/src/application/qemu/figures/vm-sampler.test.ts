import { afterEach, beforeEach, expect, it } from "vitest";
import { VmWorld } from "../../../testing/vm-world.ts";
import { VmSampler } from "./vm-sampler.ts";

let world: VmWorld;
beforeEach(async () => {
  world = await VmWorld.open();
});
afterEach(() => world.remove());

it("tells what running VMs use, and forgets those that ended", async () => {
  await world.add(100, { net0: "virtio=BC:24:11:00:00:01", net1: "virtio=BC:24:11:00:00:02" });
  await world.run(100);
  let now = 0;
  const sampler = new VmSampler({
    processes: world.guests,
    configs: world.configs,
    clock: { ...world.host.clock, monotonic: () => now },
    traffic: (_vmid, key) => (key === "net0" ? { received: 5, sent: 7 } : undefined),
    addressOf: (mac) => (mac === "BC:24:11:00:00:02" ? "10.37.0.102" : undefined),
  });
  expect(sampler.sample()).toMatchObject([
    { vmid: 100, status: "running", cpu: 0, netin: 7, netout: 5, addresses: ["10.37.0.102"] },
  ]);
  const guest = world.guests.get("100");
  if (guest !== undefined) guest.usage = () => ({ cpuNs: 500_000_000, memoryBytes: 2, memoryAnonBytes: 1 });
  now = 100;
  expect(sampler.sample()[0]?.cpu).toBe(0);
  now = 1000;
  expect(sampler.sample()).toMatchObject([{ cpu: 0.5, mem: 1, memhost: 2 }]);
  guest?.qmp.answers.set("query-blockstats", () => [
    { device: "drive-scsi0", stats: { rd_bytes: 3, wr_bytes: 4 } },
    { device: "drive-virtio1", stats: { rd_bytes: 30, wr_bytes: 40 } },
  ]);
  await sampler.askGuests();
  expect(sampler.sample()).toMatchObject([
    {
      diskread: 33,
      diskwrite: 44,
      drives: { scsi0: { read: 3, written: 4 }, virtio1: { read: 30, written: 40 } },
      nics: { tap100i0: { netin: 7, netout: 5 } },
    },
  ]);
  await guest?.stop();
  expect(sampler.sample()).toEqual([]);
});

it("takes a guest's word for the memory it uses", async () => {
  await world.add(100, {});
  await world.add(101, { balloon: "0" });
  await world.run(100);
  await world.run(101);
  const sampler = new VmSampler({
    processes: world.guests,
    configs: world.configs,
    clock: world.host.clock,
    traffic: () => undefined,
    addressOf: () => undefined,
  });
  const asked: string[] = [];
  let stats: unknown;
  for (const id of ["100", "101"]) {
    const guest = world.guests.get(id);
    if (guest === undefined) throw new Error("not running");
    guest.usage = () => ({ cpuNs: 0, memoryBytes: 2, memoryAnonBytes: 1 });
    guest.qmp.answers.set("query-blockstats", () => []);
    for (const command of ["qom-set", "qom-get"])
      guest.qmp.answers.set(command, () => {
        asked.push(`${command} ${id}`);
        if (id === "101" || stats === undefined) throw new Error("no such device");
        return command === "qom-get" ? stats : {};
      });
  }
  const mem = async (): Promise<unknown> => {
    await sampler.askGuests();
    return sampler.sample().map((row) => row.mem);
  };
  stats = { "last-update": 0, stats: {} };
  expect(await mem()).toEqual([1, 1]);
  stats = { "last-update": 5, stats: { "stat-total-memory": 1000, "stat-free-memory": 400 } };
  expect(await mem()).toEqual([600, 1]);
  stats = undefined;
  expect(await mem()).toEqual([1, 1]);
  const sets = (): number => asked.filter((what) => what === "qom-set 100").length;
  expect(sets()).toBe(1);
  // Started anew between two samples.
  Object.assign(world.guests.get("100") ?? {}, { pid: 4343 });
  stats = { "last-update": 6, stats: { "stat-total-memory": 1000, "stat-free-memory": 300 } };
  expect(await mem()).toEqual([700, 1]);
  expect(sets()).toBe(2);
});

it("reports at once who runs, with the figures of the last look at those that have run for a while", async () => {
  await world.add(100, {});
  await world.add(101, {});
  await world.run(100);
  let now = 60_000;
  const sampler = new VmSampler({
    processes: world.guests,
    configs: world.configs,
    clock: { ...world.host.clock, monotonic: () => now, now: () => started + now },
    traffic: () => undefined,
    addressOf: () => undefined,
  });
  const old = world.guests.get("100");
  if (old === undefined) throw new Error("not running");
  const started = old.startedAt;
  let measured = 0;
  const measure = (): { cpuNs: number; memoryBytes: number; memoryAnonBytes: number } => {
    measured++;
    return { cpuNs: 0, memoryBytes: measured, memoryAnonBytes: measured };
  };
  old.usage = measure;
  sampler.sample();
  now += 5_000;
  expect(sampler.rows()).toMatchObject([{ vmid: 100, uptimeSeconds: 65, memhost: 1 }]);
  await world.run(101);
  Object.assign(world.guests.get("101") ?? {}, { startedAt: started + now });
  expect(sampler.rows().map(({ vmid, uptimeSeconds }) => [vmid, uptimeSeconds])).toEqual([
    [100, 65],
    [101, 0],
  ]);
  expect(measured).toBe(1);
  // Started anew: nothing that was known of it holds.
  Object.assign(old, { pid: 4343 });
  sampler.rows();
  expect(measured).toBe(2);
  // Nobody looked at all guests for a while.
  now += 15_000;
  sampler.rows();
  expect(measured).toBe(3);
  await old.stop();
  expect(sampler.rows().map(({ vmid }) => vmid)).toEqual([101]);
});
