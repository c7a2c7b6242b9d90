import { afterEach, beforeEach, expect, test } from "vitest";
import { guestCollection } from "@gpve/domain/guest/guest-record.ts";
import { mappingCollection } from "@gpve/domain/mapping/mapping.ts";
import type { NodeBoard, NodeView } from "@gpve/domain/node/runtime.ts";
import { storageCollection } from "@gpve/domain/storage/definition.ts";
import { valuesOf } from "@gpve/domain/record/collection.ts";
import { parseVmConfig } from "@gpve/domain/vm/config/parse-config.ts";
import { HaWorld } from "../../testing/ha-world.ts";
import { createGuestReadHandlers } from "../../presentation/http/guest/guest-read-handlers.ts";
import { nodeCalls } from "../../testing/node-calls.ts";
import { MovableGuests } from "./movable-guests.ts";
import { ReadGuests } from "./read-guests.ts";

let world: HaWorld;
let movable: MovableGuests;
const flags: Record<string, readonly string[]> = { n1: ["avx", "aes"], n2: ["avx", "aes"], n3: ["avx"] };

beforeEach(async () => {
  world = new HaWorld();
  await world.guest(100, "n2", "cpu: host\nhostpci0: mapping=card,pcie=1\nusb1: host=1-1\n");
  await world.guest(101, "n3");
  await world.guest(102, "n2");
  await world.records.transact((tx) =>
    tx.put(mappingCollection, "pci/card", {
      type: "pci",
      id: "card",
      map: ["node=n2,path=0000:01:00.0,id=8086:1234", "node=n1,path=0000:02:00.0,id=8086:1234"],
    }),
  );
  const guests = world.records.collection(guestCollection);
  movable = new MovableGuests({
    board: board(),
    ha: world.rules,
    storages: () => valuesOf(world.records, storageCollection),
    mappings: () => valuesOf(world.records, mappingCollection),
    guest: (vmid) => {
      const record = guests.get(String(vmid))?.value;
      const config = record && parseVmConfig(record.conf, { vmid, digestOf: () => "" });
      return record && config && { record, config };
    },
  });
});
afterEach(() => world.close());

/** All guests run, so that what their CPUs have counts. */
function board(): NodeBoard {
  const views = world.nodes.map((node) => ({
    node,
    health: "online",
    facts: { bridges: [], accelerator: "kvm", qemu: { cpuFlags: { kvm: flags[node], tcg: [] } } },
    report: {
      storages: [{ storage: "shared", active: true }],
      guests: [{ vmid: 100 }, { vmid: 101 }, { vmid: 102 }],
      usage: { memory: { available: 2 ** 40 } },
    },
  })) as unknown as readonly NodeView[];
  return {
    list: () => views,
    get: (name: string) => views.find(({ node }) => node === name),
  } as unknown as NodeBoard;
}

test("a node is named with what it lacks: a mapped device, flags of a CPU that the VM has from its host", () => {
  const shown = movable.show("n2", 100);
  expect(shown["mapped-resources"]).toEqual(["hostpci0"]);
  expect(shown["mapped-resource-info"]).toEqual({ hostpci0: { name: "card" } });
  expect(shown["local_resources"]).toEqual(["hostpci0", "usb1"]);
  expect(shown["not_allowed_nodes"]).toHaveProperty("n3.unavailable-resources", ["hostpci0"]);
  expect(shown["not_allowed_nodes"]).toHaveProperty(
    "n3.reasons",
    expect.arrayContaining(["the CPU of node 'n3' has no aes, which the VM has now"]),
  );
  expect(() => movable.require(100, "n3")).toThrow("the mapping 'card' has no device on node 'n3'");
});

test("one that is stopped leaves its node's own devices behind only by force", async () => {
  await world.guest(104, "n2", "hostpci1: mapping=card\nusb1: host=1-1\nserial0: socket\n");
  expect(movable.show("n2", 104)["not_allowed_nodes"]).toHaveProperty("n1.reasons", [
    "can't migrate VM which uses local devices: usb1",
  ]);
  for (const force of [undefined, false, "0"])
    expect(() => movable.require(104, "n1", { force })).toThrow("uses local devices: usb1");
  for (const force of [true, 1, "1"]) expect(() => movable.require(104, "n1", { force })).not.toThrow();
  // One that runs has them in its hands.
  expect(() => movable.require(100, "n1", { force: true })).toThrow("it uses devices of its node");
});

test("what its disks can do is said by its node, and on which nodes they are by the server", async () => {
  await world.guest(103, "n2", "scsi1: local:103/vm-103-disk-1.qcow2\n[early]\nsnaptime: 1\n");
  const local = { storage: "local", type: "dir", options: { path: "/l" } };
  await world.records.transact((tx) => tx.put(storageCollection, "local", local as never));
  const asked: unknown[] = [];
  const connection = {
    call: (call: { readonly params: unknown }) => {
      asked.push(call.params);
      return Promise.resolve({ data: { hasFeature: true, nodes: ["n2"] } });
    },
  };
  const agents = { connection: () => connection } as never;
  const calls = nodeCalls(agents);
  const read = createGuestReadHandlers({ guests: {} as never, movable, calls })[
    "GET /nodes/{node}/qemu/{vmid}/feature"
  ];
  const access = { privileges: () => new Map(), has: () => true, require: () => undefined };
  const feature = (vmid: number, more = {}) =>
    read?.({ node: "n2", vmid, feature: "snapshot", ...more }, { access } as never);
  expect(await feature(102)).toEqual({ hasFeature: true, nodes: ["n1", "n2", "n3"] });
  expect(await feature(103)).toEqual({ hasFeature: true, nodes: ["n2"] });
  // Its local disk came later.
  expect(await feature(103, { snapname: "early" })).toEqual({ hasFeature: true, nodes: ["n1", "n2", "n3"] });
  expect(asked).toContainEqual({ node: "n2", vmid: "103", feature: "snapshot", snapname: "early" });
});

test("where a locked VM could go is not asked, as it could not go", async () => {
  const guests = new ReadGuests({
    guests: world.records.collection(guestCollection),
    board: board(),
    permissions: () => 1,
  });
  const calls = nodeCalls({ connection: () => undefined });
  const read = createGuestReadHandlers({ guests, movable, calls })["GET /nodes/{node}/qemu/{vmid}/migrate"];
  const shown = () => read?.({ node: "n2", vmid: 102 }, {} as never);
  expect(shown()).toHaveProperty("allowed_nodes", ["n1", "n3"]);
  await world.guest(102, "n2", "lock: backup\n");
  expect(shown).toThrow(expect.objectContaining({ pveStatus: 500, message: "VM is locked (backup)" }));
});

test("who goes along and who is in the way under HA is told", async () => {
  expect(movable.show("n2", 102)).toMatchObject({
    "dependent-ha-resources": [],
    allowed_nodes: ["n1", "n3"],
    not_allowed_nodes: {},
  });
  for (const sid of ["100", "101", "102"]) await world.config.addResource(sid, undefined, {});
  world.serve("n1");
  await world.pass(6);
  const nodes = { nodes: "n2,n3", strict: true };
  await world.rules.add("home", "node-affinity", { resources: "100", ...nodes });
  await world.rules.add("pair", "resource-affinity", { resources: "100,102", affinity: "positive" });
  await world.rules.add("apart", "resource-affinity", { resources: "102,101", affinity: "negative" });
  const shown = movable.show("n2", 102);
  expect(shown["dependent-ha-resources"]).toEqual(["vm:100"]);
  expect(shown["allowed_nodes"]).toEqual([]);
  expect(shown["not_allowed_nodes"]).toMatchObject({
    n1: { "blocking-ha-resources": [{ sid: "vm:102", cause: "node-affinity" }] },
    n3: { "blocking-ha-resources": [{ sid: "vm:101", cause: "resource-affinity" }] },
  });
});

test("a node in maintenance takes guests that are not under HA, and no others", async () => {
  for (const sid of ["100", "101"]) await world.config.addResource(sid, undefined, {});
  await world.config.setResource("100", { state: "ignored" }, { remove: [], digest: undefined });
  world.serve("n1");
  await world.pass(6);
  await world.config.maintenance("n1", true, "root@pam");
  await world.pass(4);
  const refused = (vmid: number, node: string) =>
    (movable.show(node, vmid)["not_allowed_nodes"] as Record<string, { reasons: string[] }>)["n1"]?.reasons;
  expect(refused(101, "n3")).toEqual([expect.stringContaining("node 'n1' is in maintenance")]);
  for (const vmid of [100, 102])
    expect(refused(vmid, "n2") ?? []).not.toContainEqual(expect.stringContaining("maintenance"));
});
