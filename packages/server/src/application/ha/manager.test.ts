import { afterEach, beforeEach, expect, test } from "vitest";
import { moveCollection, type GuestMove } from "@gpve/domain/guest/guest-move.ts";
import { guestCollection } from "@gpve/domain/guest/guest-record.ts";
import {
  evidenceCollection,
  managerCollection,
  managerLeaseCollection,
  MANAGER_LEASE_ID,
  MANAGER_STATUS_ID,
} from "@gpve/domain/ha/collections.ts";
import { leaseCollection, leaseId } from "@gpve/domain/ha/node-lease.ts";
import { silentLogger } from "@gpve/kit/logger.ts";
import { HaWorld } from "../../testing/ha-world.ts";
import { nodeRecords } from "../node/collections.ts";
import { FenceCommand } from "./fence-command.ts";
import { RoundChanges } from "./round-changes.ts";
import { joinedNode } from "../../testing/joined-node.ts";

let world: HaWorld;
beforeEach(() => {
  world = new HaWorld();
});
afterEach(() => world.close());

const manages = () => world.records.collection(managerLeaseCollection).get(MANAGER_LEASE_ID)?.value.node;
const lease = (node: string) => world.records.collection(leaseCollection).get(leaseId(node))?.value;

test("a lost node's guest goes to another when its lease is over, and not before", async () => {
  await world.guest(100, "n2");
  await world.config.addResource("100", undefined, {});
  world.serve("n1");
  await world.pass(8);
  expect(world.service("vm:100")).toMatchObject({ state: "started", node: "n2" });
  expect(lease("n2")).toMatchObject({ holder: "node", token: 1 });
  world.alive.delete("n2");
  await world.pass(9);
  expect(world.service("vm:100")?.state).toBe("fence");
  expect(world.ownerOf(100)).toBe("n2");
  await world.pass(8);
  expect(world.ownerOf(100)).not.toBe("n2");
  expect(world.service("vm:100")).toMatchObject({ state: "started", node: world.ownerOf(100) });
  expect(world.records.collection(guestCollection).get("100")?.value.fence).toBe(1);
  expect(lease("n2")).toMatchObject({ holder: "manager", token: 2 });
  const status = world.records.collection(managerCollection).get(MANAGER_STATUS_ID)?.value;
  expect(status?.settled).toEqual({ n2: 2 });
  expect(world.said()).toMatch(/node 'n2': no renewal of its lease \(token 1\) was seen for 1[3-9]/);
  const told = world.status.evidence("vm:100").map(({ text }) => text);
  expect(told.join("\n")).toContain("got agent lock for node 'n2'");
});

test("a node that was out of sight and kept its lease is not fenced, and its guest stays", async () => {
  await world.guest(100, "n2");
  await world.config.addResource("100", undefined, {});
  world.serve("n1");
  await world.pass(8);
  world.alive.delete("n2");
  await world.pass(9);
  expect(world.service("vm:100")?.state).toBe("fence");
  world.alive.add("n2");
  await world.pass(4);
  expect(world.service("vm:100")).toMatchObject({ state: "started", node: "n2" });
  expect(lease("n2")).toMatchObject({ holder: "node", token: 1 });
  expect(world.said()).toContain("node 'n2' was out of sight and has kept its lease: it is not fenced");
  await world.pass(30);
  expect(world.ownerOf(100)).toBe("n2");
});

test("one server manages; when it ends another does, and knows what was decided", async () => {
  await world.guest(100, "n2");
  await world.config.addResource("vm:100", "vm", { state: "enabled" });
  const first = world.serve("n1");
  await world.pass(3);
  world.serve("n3");
  await world.pass(5);
  expect(manages()).toBe("n1");
  first.abort(new Error("gone"));
  world.alive.delete("n2");
  await world.pass(9);
  expect(manages()).toBe("n3");
  await world.pass(10);
  expect(world.ownerOf(100)).not.toBe("n2");
});

test("a round of a server that lost its lead changes nothing", async () => {
  await world.guest(100, "n2");
  await world.config.addResource("100", undefined, {});
  world.serve("n1");
  await world.pass(4);
  const usurper = { holder: "other/1", node: "n9", beat: 1, at: 0 };
  await world.records.transact((tx) => tx.put(managerLeaseCollection, MANAGER_LEASE_ID, usurper));
  world.alive.delete("n2");
  await world.pass(5);
  expect(manages()).toBe("n9");
  expect(world.service("vm:100")?.state).toBe("started");
});

test("recovers by the order of start, as far as memory goes, and says why not further", async () => {
  const room = 1024 ** 3 + 300 * 1024 ** 2;
  for (const node of ["n1", "n3"]) world.memoryOf.set(node, room);
  for (const [vmid, startup] of [
    [101, "order=9"],
    [102, "order=1"],
    [103, "order=5"],
  ] as const) {
    await world.guest(vmid, "n2", `startup: ${startup}\nlock: backup\n`);
    await world.config.addResource(String(vmid), undefined, {});
  }
  world.serve("n1");
  await world.pass(8);
  world.alive.delete("n2");
  await world.pass(18);
  expect(new Set([world.ownerOf(102), world.ownerOf(103)])).toEqual(new Set(["n1", "n3"]));
  expect(world.ownerOf(101)).toBe("n2");
  expect(world.service("vm:101")?.state).toBe("recovery");
  expect(world.said()).toContain("it needs 1024 MiB of memory");
  expect(world.records.collection(guestCollection).get("102")?.value.conf).not.toContain("lock:");
});

test("room that a guest was given is taken before it starts and is reported", async () => {
  world.memoryOf.set("n1", 1024 ** 3 + 300 * 1024 ** 2);
  world.memoryOf.set("n3", 1024 ** 2);
  for (const vmid of [101, 102]) {
    await world.guest(vmid, "n2");
    await world.config.addResource(String(vmid), undefined, {});
    world.unreported.add(vmid);
  }
  world.serve("n1");
  await world.pass(8);
  world.alive.delete("n2");
  await world.pass(24);
  expect([101, 102].map((vmid) => world.ownerOf(vmid))).toEqual(["n1", "n2"]);
  expect(world.service("vm:102")?.state).toBe("recovery");
});

test("a guest on a disk that only its node has waits for it, with the reason", async () => {
  await world.guest(100, "n2", "scsi1: local:100/disk.raw\n");
  await world.config.addResource("100", undefined, {});
  world.serve("n1");
  await world.pass(6);
  world.alive.delete("n2");
  await world.pass(18);
  expect(world.ownerOf(100)).toBe("n2");
  expect(world.said()).toContain("scsi1 is on storage local");
  world.alive.add("n2");
  await world.pass(6);
  expect(world.service("vm:100")).toMatchObject({ state: "started", node: "n2" });
});

test("nobody is recovered to, or sent by a maintenance to, where its network or storage is not", async () => {
  await world.guest(100, "n2", "net0: virtio=BC:24:11:00:00:01,bridge=vmbr7\n");
  await world.guest(101, "n2");
  for (const sid of ["100", "101"]) await world.config.addResource(sid, undefined, {});
  world.bridgesOf = (node) => (node === "n1" ? ["vmbr0"] : ["vmbr0", "vmbr7"]);
  world.serve("n1");
  await world.pass(6);
  await world.config.maintenance("n2", true, "root@pam");
  await world.pass(6);
  expect(world.service("vm:100")).toMatchObject({ node: "n3", state: "started" });
  expect(world.said()).toContain("net0 is on bridge vmbr7, which n1 does not have");
  await world.config.maintenance("n2", false, "root@pam");
  await world.pass(6);
  expect([100, 101].map((vmid) => world.ownerOf(vmid))).toEqual(["n2", "n2"]);
  world.withoutShared.add("n3");
  world.alive.delete("n2");
  await world.pass(18);
  // The one has no node that has both; the other goes where its disk is.
  expect([100, 101].map((vmid) => world.ownerOf(vmid))).toEqual(["n2", "n1"]);
  expect(world.said()).toContain("scsi0 is on storage shared, which is not active on n3");
  world.withoutShared.clear();
  await world.pass(3);
  expect(world.ownerOf(100)).toBe("n3");
});

test("an operator's move is carried out when its node is ready, and commands are read once", async () => {
  await world.guest(100, "n2");
  await world.config.addResource("100", undefined, {});
  world.serve("n1");
  await world.pass(6);
  await world.config.command("relocate vm:100 n3", "root@pam");
  await world.config.maintenance("n1", true, "root@pam");
  await world.pass(4);
  expect(world.ownerOf(100)).toBe("n3");
  expect(world.service("vm:100")).toMatchObject({ node: "n3", state: "started" });
  expect(world.said()).toContain("got crm command: relocate vm:100 n3");
});

test("who is told to move a running guest may do so, once, for as long as it is told", async () => {
  await world.guest(100, "n2");
  await world.config.addResource("100", undefined, {});
  await world.records.transact((tx) => {
    for (const [nodeid, name] of world.nodes.entries())
      tx.put(nodeRecords, name, joinedNode(name, { nodeid, address: `10.0.0.${nodeid}` }));
  });
  const noted: GuestMove[] = [];
  world.records
    .collection(moveCollection)
    .onChange((_id, entry) => entry !== undefined && noted.push(entry.value));
  world.serve("n1");
  await world.pass(6);
  await world.config.command("migrate vm:100 n3", "root@pam");
  await world.pass(6);
  expect(world.service("vm:100")).toMatchObject({ node: "n3", state: "started" });
  expect(noted).toEqual([
    expect.objectContaining({
      vmid: 100,
      from: expect.objectContaining({ node: "n2" }),
      to: expect.objectContaining({ node: "n3", fingerprints: ["AA"] }),
    }),
  ]);
  expect(world.records.collection(moveCollection).list()).toEqual([]);
});

test("writes nothing but its own beat while nothing happens, and keeps evidence within bounds", async () => {
  await world.guest(100, "n2");
  await world.config.addResource("100", undefined, {});
  await world.records.transact((tx) => {
    for (let at = 0; at < 650; at++)
      tx.put(evidenceCollection, `n2/${at}`, {
        at,
        by: "n2",
        role: "local",
        lines: [{ level: "info", text: "x" }],
      });
  });
  world.serve("n1");
  await world.pass(6);
  const before = world.records.collection(managerCollection).get(MANAGER_STATUS_ID)?.revision;
  await world.pass(6);
  expect(world.records.collection(managerCollection).get(MANAGER_STATUS_ID)?.revision).toBe(before);
  await world.config.command("disarm-ha freeze", "root@pam");
  await world.pass(2);
  expect(world.records.collection(evidenceCollection).list().length).toBeLessThan(650);
});

test("a node that writes much, of years to come, takes the place of no line but its own", async () => {
  await world.guest(100, "n2");
  await world.config.addResource("100", undefined, {});
  const lines = [{ level: "info", text: "x" }];
  await world.records.transact((tx) => {
    tx.put(evidenceCollection, "n3/first", { at: 1, by: "n3", role: "local", lines });
    for (let count = 0; count < 650; count++)
      tx.put(evidenceCollection, `n2/${count}`, { at: 8e15 - count, by: "n2", role: "local", lines });
  });
  world.serve("n1");
  await world.pass(6);
  await world.config.command("disarm-ha freeze", "root@pam");
  await world.pass(4);
  const ids = world.records
    .collection(evidenceCollection)
    .list()
    .map(({ id }) => id);
  expect(ids.length).toBeLessThan(650);
  expect(ids).toContain("n3/first");
  expect(world.said()).toContain("adding new service 'vm:100'");
  expect(world.status.evidence("vm:100").map(({ by }) => by)).toContain("n1");
});

test("an operator's fence command must end well before anything is recovered", async () => {
  let works = false;
  const calls: string[][] = [];
  const exec = (file: string, args: readonly string[]) => {
    calls.push([file, ...args]);
    return works ? Promise.resolve({} as never) : Promise.reject(new Error("no answer from the PDU"));
  };
  const command = new FenceCommand(["/sbin/fence", "--off"], { exec: exec as never, log: silentLogger });
  await world.guest(100, "n2");
  await world.config.addResource("100", undefined, {});
  world.serve("n1", { fenceHook: (node, token) => command.confirms(node, token) });
  await world.pass(6);
  world.alive.delete("n2");
  await world.pass(20);
  expect(world.ownerOf(100)).toBe("n2");
  expect(calls[0]).toEqual(["/sbin/fence", "--off", "n2"]);
  works = true;
  await world.pass(4);
  expect(world.ownerOf(100)).not.toBe("n2");
});

test("a round that would give away a guest which moved meanwhile is given up", async () => {
  await world.guest(100, "n2");
  const changes = new RoundChanges();
  changes.lead = { value: { holder: "n1/1", node: "n1", beat: 1, at: 0 }, seenRevision: 0 };
  changes.takeOvers.set(100, { vmid: 100, from: "n2", to: "n1" });
  // Its move was decided in the round, and ended before the round did.
  await world.guest(100, "n3");
  await expect(changes.commit(world.records, 0, 0)).rejects.toThrow("VM 100 is node n3's meanwhile");
  expect(world.ownerOf(100)).toBe("n3");
});

test("a cordoned node gets the guest of a lost one only where there is no other", async () => {
  for (const vmid of [100, 101]) await world.guest(vmid, "n2");
  await world.config.addResource("100", undefined, {});
  await world.config.addResource("101", undefined, {});
  await world.records.transact((tx) => tx.put(nodeRecords, "n1", joinedNode("n1", { unschedulable: true })));
  world.serve("n1");
  await world.pass(8);
  expect(world.service("vm:100")).toMatchObject({ state: "started", node: "n2" });
  world.alive.delete("n2");
  await world.pass(18);
  expect([100, 101].map((vmid) => world.ownerOf(vmid))).toEqual(["n3", "n3"]);
  world.alive.delete("n3");
  await world.pass(18);
  expect([100, 101].map((vmid) => world.ownerOf(vmid))).toEqual(["n1", "n1"]);
});
