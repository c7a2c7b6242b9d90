// Every operation on a VM, cut off and failed at every point: nothing leaks, nothing stays locked, no disk is lost.
import { expect, it } from "vitest";
import { testSaga, type SagaTest } from "@gpve/kit/testing/saga-harness.ts";
import { MadeUpServers } from "../../testing/move-world.ts";
import { VmWorld } from "../../testing/vm-world.ts";
import { registerSnapshots } from "../guest/snapshot-operations.ts";
import { vmSnapshots } from "./snapshot/vm-snapshots.ts";
import { registerVmOperations } from "./vm-operations.ts";

function saga(
  type: string,
  args: object,
  prepare: (world: VmWorld) => Promise<void>,
  check: SagaTest<VmWorld>["check"],
  resources = ["vm/100"],
): Promise<unknown> {
  return testSaga<VmWorld>({
    prepare: async () => {
      const world = await VmWorld.open();
      await prepare(world);
      return world;
    },
    define: (engine, world) => {
      registerVmOperations(engine, world.host);
      registerSnapshots(engine, vmSnapshots(world.host));
      return { type, args: { vmid: 100, ...args }, resources };
    },
    check: async (world, outcome, operation) => {
      for (const vmid of world.configs.list()) expect(world.values(vmid)).not.toHaveProperty("lock");
      await check(world, outcome, operation);
    },
    cleanup: (world) => world.remove(),
  });
}

const snapshotsIn = async (world: VmWorld): Promise<string[]> =>
  (await world.storages.find("local").plugin.snapshots("100/vm-100-disk-0.qcow2")).map(({ name }) => name);

it("creates a VM completely or not at all", () =>
  saga(
    "qmcreate",
    { values: { scsi0: "local:0.001,format=qcow2", scsi1: "local:0.001" }, start: false },
    async () => undefined,
    (world, outcome) => {
      expect(world.images(100)).toHaveLength(outcome === "done" ? 2 : 0);
      expect(world.configs.has(100)).toBe(outcome === "done");
    },
  ));

it("adds disks that the configuration names, or none", () =>
  saga(
    "qmconfig",
    {
      update: {
        set: { scsi1: "local:0.001,format=qcow2", scsi2: "local:0.001", name: "more" },
        delete: [],
        revert: [],
        force: false,
        skiplock: false,
      },
    },
    async (world) => void (await world.addWithDisk(100, { memory: "16" })),
    (world, outcome) => {
      const named = Object.keys(world.values(100)).filter((key) => /^(?:scsi|unused)\d$/.test(key));
      expect(world.images(100)).toHaveLength(named.length);
      if (outcome === "done") expect(named).toHaveLength(3);
    },
  ));

it("takes a snapshot with RAM completely or not at all", () =>
  saga(
    "qmsnapshot",
    { name: "snap", withState: true },
    async (world) => {
      await world.addWithDisk(100, { memory: "16" });
      await world.run(100);
    },
    async (world, outcome) => {
      const done = outcome === "done";
      expect(world.guests.get("100")?.status).toBe("running");
      expect(Object.keys(world.configs.get(100).snapshots)).toEqual(done ? ["snap"] : []);
      expect(await snapshotsIn(world)).toEqual(done ? ["snap"] : []);
      expect(world.images(100)).toHaveLength(done ? 2 : 1);
    },
  ));

it("suspends a VM to disk, or leaves it running", () =>
  testSaga<VmWorld>({
    prepare: async () => {
      const world = await VmWorld.open();
      await world.addWithDisk(100, { memory: "16" });
      await world.run(100);
      return world;
    },
    define: (engine, world) => {
      registerVmOperations(engine, world.host);
      registerSnapshots(engine, vmSnapshots(world.host));
      return { type: "qmsuspend", args: { vmid: 100, skiplock: false }, resources: ["vm/100"] };
    },
    check: (world) => {
      const guest = world.guests.get("100");
      // Either it runs and nothing is kept, or it is gone and everything is.
      if (guest === undefined)
        expect(world.values(100)).toMatchObject({ lock: "suspended", runningmachine: "pc-i440fx-7.2" });
      else {
        expect(guest.status).toBe("running");
        for (const key of ["lock", "vmstate", "runningmachine", "runningcpu"])
          expect(world.values(100)).not.toHaveProperty(key);
      }
      expect(world.images(100)).toHaveLength(guest === undefined ? 2 : 1);
    },
    cleanup: (world) => world.remove(),
  }));

it("resumes a suspended VM, or leaves it suspended", () =>
  testSaga<VmWorld>({
    prepare: async () => {
      const world = await VmWorld.open();
      await world.addWithDisk(100, { memory: "16" });
      const plugin = world.storages.find("local").plugin;
      const size = 1024 * 1024;
      const state = await plugin.alloc({
        vmid: 100,
        format: "raw",
        name: "vm-100-state-suspend-x.raw",
        size,
      });
      await world.configs.change(100, (config) => ({
        ...config,
        values: { ...config.values, lock: "suspended", vmstate: `local:${state}`, runningmachine: "pc" },
      }));
      return world;
    },
    define: (engine, world) => {
      registerVmOperations(engine, world.host);
      registerSnapshots(engine, vmSnapshots(world.host));
      return { type: "qmresume", args: { vmid: 100 }, resources: ["vm/100"] };
    },
    check: (world) => {
      const guest = world.guests.get("100");
      if (guest !== undefined) expect(guest.status).toBe("running");
      expect(world.values(100)["lock"]).toBe(guest === undefined ? "suspended" : undefined);
      expect(world.images(100)).toHaveLength(guest === undefined ? 2 : 1);
    },
    cleanup: (world) => world.remove(),
  }));

it("deletes a snapshot, or keeps what can be deleted again", () =>
  saga("qmdelsnapshot", { name: "snap", force: false }, withSnapshot, async (world, outcome) => {
    expect(world.images(100)).toEqual(["vm-100-disk-0.qcow2"]);
    if (outcome === "done") expect(await snapshotsIn(world)).toEqual([]);
    expect(world.values(100)["scsi0"]).toContain("vm-100-disk-0");
  }));

it("goes back to a snapshot and holds no lock", () =>
  saga("qmrollback", { name: "snap", start: false }, withSnapshot, async (world, outcome) => {
    expect(world.images(100)).toEqual(["vm-100-disk-0.qcow2"]);
    expect(await snapshotsIn(world)).toEqual(["snap"]);
    if (outcome === "done") expect(world.values(100)["parent"]).toBe("snap");
  }));

it("clones a VM completely or not at all", () =>
  saga(
    "qmclone",
    { newid: 200, full: true },
    async (world) => {
      await world.addWithDisk(100);
    },
    (world, outcome) => {
      expect(world.images(100)).toHaveLength(1);
      expect(world.images(200)).toHaveLength(outcome === "done" ? 1 : 0);
      expect(world.configs.has(200)).toBe(outcome === "done");
    },
    ["vm/100", "vm/200"],
  ));

it("clones a VM for another node: one of both has all of it, or nobody", () => {
  let servers: MadeUpServers | undefined;
  return testSaga<VmWorld>({
    prepare: async () => {
      const world = await VmWorld.open();
      await world.addWithDisk(100);
      servers = new MadeUpServers(world.records);
      servers.allow(200, "r");
      return world;
    },
    define: (engine, world) => {
      registerVmOperations(engine, { ...world.host, moves: { servers: servers as MadeUpServers } });
      const args = { vmid: 100, newid: 200, full: true, target: "n2", madeBy: "r" };
      return { type: "qmclone", args, resources: ["vm/100", "vm/200"] };
    },
    check: (world, outcome) => {
      const owner = servers?.owner(200);
      expect(outcome === "done" ? ["n2"] : ["", "n2"]).toContain(owner);
      expect(world.images(200)).toHaveLength(owner === "n2" ? 1 : 0);
      expect(world.images(100)).toHaveLength(1);
      expect(servers?.find(200, "r") === undefined || owner === "").toBe(true);
    },
    cleanup: (world) => world.remove(),
  });
});

it("moves a disk, and never loses it", () =>
  saga(
    "qmmove",
    { disk: "scsi0", storage: "local", format: "raw", remove: true },
    async (world) => {
      await world.addWithDisk(100);
    },
    (world, outcome) => {
      const name = /vm-100-disk-\d\.\w+/.exec(world.values(100)["scsi0"] ?? "")?.[0];
      expect(world.images(100)).toContain(name);
      if (outcome === "done") expect(world.images(100)).toEqual([expect.stringMatching(/raw$/)]);
    },
  ));

it("gives a disk to another VM, and one of both has it", () =>
  saga(
    "qmmove",
    { disk: "scsi0", targetVmid: 101, targetDisk: "scsi1" },
    async (world) => {
      await world.addWithDisk(100);
      await world.addWithDisk(101);
    },
    (world) => {
      const disks = (vmid: number): number =>
        Object.keys(world.values(vmid)).filter((key) => key.startsWith("scsi")).length;
      expect(disks(100) + disks(101)).toBe(2);
      expect([world.images(100).length, world.images(101).length]).toEqual([disks(100), disks(101)]);
    },
    ["vm/100", "vm/101"],
  ));

it("destroys a VM, if need be in two goes", () =>
  testSaga<VmWorld>({
    prepare: async () => {
      const world = await VmWorld.open();
      await world.addWithDisk(100);
      return world;
    },
    define: (engine, world) => {
      registerVmOperations(engine, world.host);
      registerSnapshots(engine, vmSnapshots(world.host));
      const args = { vmid: 100, skiplock: false, destroyUnreferenced: false, storages: ["local"] };
      return { type: "qmdestroy", args, resources: ["vm/100"] };
    },
    check: (world) => {
      // Either it is gone with its disk, or it has it still.
      expect(world.images(100)).toHaveLength(world.configs.has(100) ? 1 : 0);
    },
    cleanup: (world) => world.remove(),
  }));

async function withSnapshot(world: VmWorld): Promise<void> {
  const volume = await world.addWithDisk(100);
  await world.storages.find("local").plugin.snapshot(volume, "snap");
  await world.configs.change(100, (config) => ({
    ...config,
    snapshots: { snap: { ...config.values, snaptime: "1" } },
  }));
}
