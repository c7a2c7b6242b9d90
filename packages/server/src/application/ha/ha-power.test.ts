import { afterEach, beforeEach, expect, test } from "vitest";
import { commandCollection, resourceCollection } from "@gpve/domain/ha/collections.ts";
import { newReplicationJob, replicationCollection } from "@gpve/domain/replication/replication-job.ts";
import { storageCollection } from "@gpve/domain/storage/definition.ts";
import { testEngine } from "@gpve/kit/testing/operation-engine.ts";
import { HaWorld } from "../../testing/ha-world.ts";
import type { Asking } from "../node/call-agent.ts";
import { HaPower, haPowerOperations } from "./ha-power.ts";

let world: HaWorld;
let divert: (route: string, params?: object, source?: "form" | "json") => Promise<string | undefined>;
let denied: string | undefined;
let close: () => Promise<void>;
const vm = "/nodes/{node}/qemu/{vmid}";
const to = (target: string) => ({ target, online: true });

beforeEach(async () => {
  world = new HaWorld();
  for (const vmid of [100, 101]) await world.guest(vmid, "n2", "net0: virtio,bridge=vmbr0\n");
  const { engine } = testEngine();
  for (const operation of haPowerOperations(world.config)) engine.register(operation);
  await engine.start();
  const power = new HaPower({
    records: world.records,
    config: world.config,
    rules: world.rules,
    movable: world.movable,
    engine,
  });
  let requests = 0;
  denied = undefined;
  const access = {
    require: (path: string) => {
      if (path === denied) throw new Error(`not for ${path}`);
    },
  };
  divert = async (route, more = {}, source = "json") => {
    const ctx = { actor: { authid: "joe@pve" }, access, requestId: `r${requests++}` } as unknown as Asking;
    const params = { node: "n2", vmid: "100", ...more };
    const reply = await power.divert(route, { params, source }, ctx);
    for (const { id } of engine.list()) await engine.wait(id);
    return reply && String(reply.data);
  };
  close = async () => {
    await engine.stop();
    await world.close();
  };
});
afterEach(() => close());

test("guests that are not under HA, or ignored by it, are their node's", async () => {
  expect(await divert(`POST ${vm}/status/start`)).toBeUndefined();
  await world.config.addResource("100", undefined, { state: "ignored" });
  expect(await divert(`POST ${vm}/status/stop`)).toBeUndefined();
  expect(await divert(`GET ${vm}/config`)).toBeUndefined();
});

test("stop, start and migrate of one under HA become wishes, and happen", async () => {
  await world.config.addResource("100", undefined, {});
  world.serve("n1");
  await world.pass(6);
  expect(await divert(`POST ${vm}/status/stop`)).toContain("hastop");
  expect(world.config.resource("100").state).toBe("stopped");
  await world.pass(4);
  expect(world.service("vm:100")?.state).toBe("stopped");
  expect(await divert(`POST ${vm}/status/start`)).toContain("hastart");
  await world.pass(4);
  expect(world.service("vm:100")).toMatchObject({ state: "started", node: "n2" });
  expect(await divert(`POST ${vm}/migrate`, to("n3"))).toContain("hamigrate");
  await world.pass(4);
  expect(world.ownerOf(100)).toBe("n3");
  await expect(divert(`POST ${vm}/migrate`, to("n9"))).rejects.toThrow();
  await expect(divert(`POST ${vm}/migrate`, to("n3"))).rejects.toThrow(
    expect.objectContaining({ errors: { target: "target is local node." } }),
  );
  await world.config.setResource("100", { state: "disabled" }, { remove: [], digest: undefined });
  expect(await divert(`POST ${vm}/status/start`)).toContain("hastart");
  expect(world.config.resource("100").state).toBe("started");
});

test("a stop is wanted and ordered in one: no round sees that it is wanted and not how", async () => {
  await world.config.addResource("100", undefined, {});
  await divert(`POST ${vm}/status/stop`);
  const wanted = world.records.collection(resourceCollection).get("vm:100");
  const [ordered] = world.records.collection(commandCollection).list();
  expect([wanted?.value.state, ordered?.value.line]).toEqual(["stopped", "stop vm:100 0"]);
  expect(ordered?.revision).toBe(wanted?.revision);
});

test("a move that a strict rule forbids or that the node cannot take is refused at once, with the reason", async () => {
  for (const sid of ["100", "101"]) await world.config.addResource(sid, undefined, {});
  await world.rules.add("home", "node-affinity", { resources: "100", nodes: "n2,n3", strict: true });
  await expect(divert(`POST ${vm}/migrate`, to("n1"))).rejects.toThrow(
    "cannot migrate resource 'vm:100' to node 'n1': a strict node affinity rule of 'vm:100' does not name it",
  );
  world.bridgesOf = (node) => (node === "n3" ? ["vmbr1"] : ["vmbr0"]);
  await expect(divert(`POST ${vm}/migrate`, to("n3"))).rejects.toThrow("'n3' has no bridge 'vmbr0'");
  world.bridgesOf = () => ["vmbr0"];
  expect(await divert(`POST ${vm}/migrate`, to("n3"))).toContain("hamigrate");
});

test("a move to a node in maintenance is refused, instead of a task that goes well and moves nothing", async () => {
  await world.config.addResource("100", undefined, {});
  world.serve("n1");
  await world.pass(6);
  await world.config.maintenance("n3", true, "root@pam");
  await world.pass(4);
  await expect(divert(`POST ${vm}/migrate`, to("n3"))).rejects.toThrow(
    "node 'n3' is in maintenance and takes no guests under HA before that is over (gpvectl ha maintenance off n3)",
  );
});

test("while HA is disarmed a move is refused instead of forgotten; one that HA ignores meanwhile is its node's", async () => {
  await world.config.addResource("100", undefined, {});
  world.serve("n1");
  await world.pass(6);
  await world.config.command("disarm-ha freeze", "root@pam");
  await world.pass(5);
  await expect(divert(`POST ${vm}/migrate`, to("n3"))).rejects.toThrow("HA is disarmed and does not move");
  expect(() => world.config.requireManaged("vm:100")).toThrow("arm it first (gpvectl ha arm)");
  await world.config.command("arm-ha", "root@pam");
  await world.pass(5);
  expect(await divert(`POST ${vm}/migrate`, to("n3"))).toContain("hamigrate");
  await world.config.command("disarm-ha ignore", "root@pam");
  await world.pass(5);
  expect(await divert(`POST ${vm}/migrate`, to("n1"))).toBeUndefined();
});

test("a guest under HA is deleted only with what is known of it, which stays until it is gone", async () => {
  await world.config.addResource("100", undefined, {});
  await expect(divert(`DELETE ${vm}`)).rejects.toThrow(
    "unable to remove VM 100 - used in HA resources and purge parameter not set.",
  );
  expect(await divert(`DELETE ${vm}`, { purge: true })).toBeUndefined();
  expect(await divert(`DELETE ${vm}`, { purge: "1" }, "form")).toBeUndefined();
  await expect(divert(`DELETE ${vm}`, { purge: "0" }, "form")).rejects.toThrow("purge parameter not set");
  // Its node may refuse, as for one that runs or is protected.
  expect(world.config.resources()).toMatchObject([{ sid: "vm:100" }]);
  expect(await divert(`DELETE ${vm}`, { vmid: "101" })).toBeUndefined();
});

test("a guest with a replication job is deleted only with the job and its copy", async () => {
  const job = newReplicationJob("100-0", "n3", {}, 0);
  await world.records.transact((tx) => tx.put(replicationCollection, job.id, job));
  for (const purge of [undefined, false])
    await expect(divert(`DELETE ${vm}`, { purge })).rejects.toMatchObject({
      pveStatus: 500,
      message: "There is a replication job '100-0' for guest '100' - Please remove that first.",
    });
  expect(await divert(`DELETE ${vm}`, { purge: "1" }, "form")).toBeUndefined();
  expect(await divert(`DELETE ${vm}`, { vmid: "101" })).toBeUndefined();
});

test("what a form says is read as the node would read it, and refused as there", async () => {
  await world.config.addResource("100", undefined, {});
  expect(await divert(`POST ${vm}/status/stop`, { skiplock: "1" }, "form")).toBeUndefined();
  expect(await divert(`POST ${vm}/status/shutdown`, { timeout: "17" }, "form")).toContain("hastop");
  expect(world.commands()).toEqual(["stop vm:100 17"]);
  const refusals: readonly [string, object, string][] = [
    ["status/shutdown", { timeout: "abc" }, "timeout"],
    ["status/start", { bogus: "1" }, "bogus"],
    ["migrate", {}, "target"],
  ];
  for (const [verb, params, name] of refusals)
    await expect(divert(`POST ${vm}/${verb}`, params, "form"), verb).rejects.toMatchObject({
      pveStatus: 400,
      errors: { [name]: expect.any(String) },
    });
});

test("of guests of a node that are named for start and stop, HA is told of its own, and the node asked for the others", async () => {
  await world.guest(102, "n3");
  await world.guest(103, "n2", "startup: order=1,down=9\n");
  for (const sid of ["100", "102", "103"]) await world.config.addResource(sid, undefined, {});
  const stopAll = "POST /nodes/{node}/stopall";
  const states = () => world.config.resources().map(({ sid, state }) => `${sid} ${state}`);
  expect(await divert(stopAll, { vmid: undefined })).toBeUndefined();
  expect(await divert("POST /nodes/{node}/suspendall", { vmid: undefined, vms: "100" })).toBeUndefined();
  expect(world.commands()).toEqual([]);
  expect(await divert(stopAll, { vmid: undefined, vms: "100,101,102,103" }, "form")).toBeUndefined();
  expect(states()).toEqual(["vm:100 stopped", "vm:102 started", "vm:103 stopped"]);
  expect(world.commands()).toEqual(["stop vm:100 180", "stop vm:103 9"]);
  expect(await divert("POST /nodes/{node}/startall", { vmid: undefined, vms: "100" })).toBeUndefined();
  expect(states()).toEqual(["vm:100 started", "vm:102 started", "vm:103 stopped"]);
  denied = "/vms/101";
  await expect(divert(stopAll, { vmid: undefined, vms: "100,101" })).rejects.toThrow("/vms/101");
  expect(states()[0]).toBe("vm:100 started");
});

test("a move is refused for what its node would refuse it for, in its words", async () => {
  await world.config.addResource("100", undefined, {});
  const move = `POST ${vm}/migrate`;
  await expect(divert(move, to("n9"))).rejects.toMatchObject({
    pveStatus: 500,
    message: "no such cluster node 'n9'",
  });
  for (const online of [{}, { online: "0" }])
    await expect(divert(move, { target: "n3", ...online }, "form")).rejects.toMatchObject({
      pveStatus: 500,
      message: "can't migrate running VM without --online",
    });
  world.unreported.add(100);
  expect(await divert(move, { target: "n3" }, "form")).toContain("hamigrate");
  await world.guest(100, "n2", "lock: backup\n");
  await expect(divert(move, to("n3"))).rejects.toMatchObject({
    pveStatus: 500,
    message: "VM is locked (backup)",
  });
  expect(world.commands()).toEqual(["migrate vm:100 n3"]);
});

test("one with a disk or a disc that only its node has is not sent anywhere, however that is asked for", async () => {
  await world.guest(100, "n2", "ide2: local:iso/tiny.iso,media=cdrom\n");
  const local = { storage: "local", type: "dir", options: { path: "/l" } };
  await world.records.transact((tx) => tx.put(storageCollection, "local", local as never));
  await world.config.addResource("100", undefined, {});
  const why = "HA does not move 'vm:100' to node 'n3': ide2 is on storage local, which is not shared";
  await expect(divert(`POST ${vm}/migrate`, to("n3"))).rejects.toThrow(why);
  expect(() => world.config.requireTaker("vm:100", "n3")).toThrow(why);
  expect(world.movable.show("n2", 100)["not_allowed_nodes"]).toMatchObject({ n3: { reasons: [why] } });
  expect(world.commands()).toEqual([]);
  // Its node takes along what it has.
  await world.config.setResource("100", { state: "ignored" }, { remove: [], digest: undefined });
  expect(world.movable.show("n2", 100)["allowed_nodes"]).toEqual(["n1", "n3"]);
});

test("one under HA does not leave for another cluster", async () => {
  const move = `POST ${vm}/remote_migrate`;
  const params = {
    "target-endpoint": "host=10.0.0.9,apitoken=PVEAPIToken=root@pam!move=x",
    "target-storage": "store",
    "target-bridge": "vmbr0",
  };
  expect(await divert(move, params)).toBeUndefined();
  await world.config.addResource("100", undefined, {});
  await expect(divert(move, params)).rejects.toMatchObject({
    pveStatus: 400,
    errors: { vmid: "cannot migrate HA-managed VM to remote cluster" },
  });
  await world.config.setResource("100", { state: "ignored" }, { remove: [], digest: undefined });
  expect(await divert(move, params)).toBeUndefined();
});
