import { afterEach, beforeEach, expect, it } from "vitest";
import { VmWorld } from "../../testing/vm-world.ts";
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
  });
  expect(sampler.sample()).toMatchObject([{ vmid: 100, status: "running", cpu: 0, netin: 7, netout: 5 }]);
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
  await sampler.askDisks();
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
