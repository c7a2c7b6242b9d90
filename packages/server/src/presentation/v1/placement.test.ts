import { given } from "@gpve/contracts/given.ts";
import { guestCollection, guestRecord } from "@gpve/domain/guest/guest-record.ts";
import { nodeRecords } from "../../application/node/collections.ts";
import type { VmActionDeps } from "../../application/v1/adapters/virtual-machine.ts";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { AppError } from "@gpve/contracts/errors.ts";
import type { NodeView } from "@gpve/domain/node/runtime.ts";
import { placePveGuest } from "../../application/scheduler/place-pve-guest.ts";
import { placementsDef, schedulingDef } from "../../application/scheduler/placement-records.ts";
import { SchedulerWorld } from "../../testing/scheduler-world.ts";
import type { Records } from "@gpve/store/records/port.ts";
import { startV1, type V1TestServer } from "./testing/v1-server.ts";

let v1: V1TestServer;
let world: SchedulerWorld;
let asked: { node: string; route: string; params: Readonly<Record<string, unknown>> }[];
let refuse: string | undefined;

beforeEach(async () => {
  asked = [];
  refuse = undefined;
  const scheduler = () => world.scheduler;
  const vmActions = (records: Records): VmActionDeps => ({
    callNode: async (node, route, params) => {
      asked.push({ node, route, params });
      if (refuse !== undefined) throw new AppError("operation.failed", refuse);
      const { vmid, config } = params as { vmid: number; config?: Record<string, string> };
      const conf = Object.entries(config ?? {})
        .map(([key, text]) => `${key}: ${text}\n`)
        .join("");
      if (route.endsWith("virtual-machines"))
        await records.transact((tx) =>
          tx.put(guestCollection, String(vmid), guestRecord({ vmid, type: "qemu", node, conf })),
        );
      return null;
    },
    withdraw: async () => undefined,
    taskEnd: async () => undefined,
    reported: async () => undefined,
    placement: {
      guests: { run: (...args) => scheduler().guests.run(...args) },
      rules: { set: (...args) => scheduler().rules.set(...args) },
    },
  });
  v1 = await startV1({
    vmActions,
    deps: {
      scheduler: {
        explain: {
          guest: (...args) => scheduler().explain.guest(...args),
          place: (...args) => scheduler().explain.place(...args),
          nodeLoss: (...args) => scheduler().explain.nodeLoss(...args),
        },
        clusters: { story: (...args) => scheduler().clusters.story(...args) },
        guests: { keep: (...args) => scheduler().guests.keep(...args) },
      },
    },
  });
  world = await SchedulerWorld.with(["n1", "n2"], { records: v1.records });
  for (const node of ["n1", "n2"]) v1.views.set(node, { node, health: "online" } as NodeView);
});
afterEach(async () => {
  world.stop();
  await v1.close();
});

const vm = (name: string, spec: object, labels = {}) => ({
  apiVersion: "gpve.io/v1",
  kind: "VirtualMachine",
  metadata: { name, labels },
  spec,
});
const spec = { node: "auto", cpu: { cores: 1 }, memory: { size: "1Gi" } };

describe("a VirtualMachine with node: auto", () => {
  it("is made where there is room, keeps to its rules with the others, and is explained", async () => {
    const scheduling = { startOnBoot: true, antiAffinity: { required: [{ guests: "app=web" }] } };
    const make = (name: string) =>
      v1.ask("POST", "/virtualmachines", { body: vm(name, { ...spec, scheduling }, { app: "web" }) });
    const [one, two] = [await make("100"), await make("101")];
    expect([one.status, two.status]).toEqual([201, 201]);
    expect(new Set(asked.map(({ node }) => node))).toEqual(new Set(["n1", "n2"]));
    expect(one.body.spec).toMatchObject({ node: asked[0]?.node, scheduling });
    const third = await make("102");
    expect(third.status).toBe(507);
    expect(third.body["detail"]).toContain("2 by GuestAffinity");
    expect(v1.records.collection(schedulingDef).get("102")).toBeUndefined();
    const story = await v1.ask("GET", "/virtualmachines/100/placement");
    expect(story.body).toMatchObject({
      node: asked[0]?.node,
      decision: { by: "root@pam", explanation: { strategy: "balanced", feasible: 2 } },
      violations: [],
    });
  });

  it("gives its place and its rules back when the node refuses it", async () => {
    refuse = "no space left";
    const scheduling = { strategy: "utilization" };
    const failed = await v1.ask("POST", "/virtualmachines", { body: vm("100", { ...spec, scheduling }) });
    expect(failed.status).toBe(500);
    expect(v1.records.collection(placementsDef).list()).toEqual([]);
    expect(v1.records.collection(schedulingDef).list()).toEqual([]);
  });

  it("stays where it is when it is applied again; its rules are changed, patched and taken away", async () => {
    await v1.ask("POST", "/virtualmachines", { body: vm("100", { ...spec, scheduling: { priority: 3 } }) });
    const [{ node } = { node: "" }] = asked;
    const plan = async (of: object) =>
      (await v1.ask("POST", "/plan", { body: { objects: [vm("100", of)] } })).body["items"];
    expect(await plan({ ...spec, scheduling: { priority: 3 } })).toMatchObject([{ action: "unchanged" }]);
    expect(await plan({ ...spec, scheduling: { priority: 4 } })).toMatchObject([
      { action: "update", changes: [{ path: "spec.scheduling.priority", before: 3, after: 4 }] },
    ]);
    expect(await plan({ ...spec, node: "auto" })).toMatchObject([{ action: "update" }]);
    const patch = (scheduling: object | null) =>
      v1.ask("PATCH", "/virtualmachines/100", { body: { spec: { scheduling } } });
    expect((await patch({ strategy: "ha-spread" })).body.spec).toMatchObject({
      node,
      scheduling: { priority: 3, strategy: "ha-spread" },
    });
    expect((await patch({ strategy: "latency", maxSkew: 2 })).body).toMatchObject({
      status: 400,
      errors: { "spec.scheduling.maxSkew": expect.stringContaining("means nothing") },
    });
    expect((await patch({ priority: null, strategy: null })).body.spec).not.toHaveProperty("scheduling");
    await v1.addUser("cpu@pve", { grants: [["/vms", "PVEVMUser"]] });
    const denied = await v1.ask("PATCH", "/virtualmachines/100", {
      as: "cpu@pve",
      body: { spec: { scheduling: { priority: 9 } } },
    });
    expect(denied.status).toBe(403);
  });

  it("a node that is not there, or none where there are several, is told with what there is", async () => {
    const without = await v1.ask("POST", "/virtualmachines", {
      body: vm("100", { memory: { size: "1Gi" } }),
    });
    expect(without.body["detail"]).toContain("n1, n2, or auto");
  });
});

describe("the routes of the scheduler", () => {
  it("simulate for who may see nodes, and for nobody else", async () => {
    const place = (as?: string) =>
      v1.ask("POST", "/simulate/place", { body: { cpu: 4, count: 3 }, ...given({ as }) });
    expect((await place()).body).toMatchObject({ fits: false, placed: [{}, {}] });
    expect((await v1.ask("POST", "/simulate/node-loss", { body: { nodes: ["n1"] } })).body).toEqual({
      restarted: [],
      stranded: [],
      down: [],
      stopped: [],
    });
    await v1.addUser("joe@pve");
    expect((await place("joe@pve")).status).toBe(403);
    expect(
      (await v1.ask("POST", "/simulate/node-loss", { as: "joe@pve", body: { nodes: ["n1"] } })).status,
    ).toBe(403);
  });

  it("keep a place for who may make the VM, and for nobody else", async () => {
    await v1.addUser("joe@pve", { grants: [["/vms/100", "PVEVMAdmin"]] });
    const keep = (vmid: number) =>
      v1.ask("POST", "/placements", { as: "joe@pve", body: { vmid, config: { cores: "4" }, starts: true } });
    expect((await keep(101)).status).toBe(403);
    const kept = await keep(100);
    expect(kept.status).toBe(201);
    expect(kept.body["explanation"]).toMatchObject({ verdicts: [{ node: kept.body["node"], refusals: [] }] });
    expect(v1.records.collection(placementsDef).list()).toHaveLength(1);
  });

  it("is nobody's to say of a guest that is there, or whose place another holds; and not without end", async () => {
    for (const name of ["joe@pve", "eve@pve"]) await v1.addUser(name, { grants: [["/vms", "PVEVMAdmin"]] });
    const keep = (as: string, vmid: number) =>
      v1.ask("POST", "/placements", { as, body: { vmid, config: { memory: "16" } } });
    await v1.records.transact((tx) =>
      tx.put(guestCollection, "100", guestRecord({ vmid: 100, type: "qemu", node: "n1", conf: "" })),
    );
    expect(await keep("eve@pve", 100)).toMatchObject({ status: 409 });
    expect((await keep("joe@pve", 101)).status).toBe(201);
    expect(await keep("eve@pve", 101)).toMatchObject({ status: 409 });
    expect((await keep("joe@pve", 101)).status).toBe(201);
    const [held] = v1.records.collection(placementsDef).list();
    if (held === undefined) throw new Error("no place was kept");
    await v1.records.transact((tx) => {
      for (let vmid = 102; vmid < 151; vmid++) {
        const request = { ...held.value.request, id: `vm/${vmid}` };
        // By whichever of his tokens.
        const by = vmid % 2 === 0 ? held.value.by : `${held.value.by}!t${vmid}`;
        tx.put(placementsDef, encodeURIComponent(request.id), { ...held.value, node: "n9", request, by });
      }
    });
    const more = await keep("joe@pve", 151);
    expect([more.status, more.body["detail"]]).toEqual([
      423,
      expect.stringContaining("joe@pve holds 50 places for guests that are not there yet"),
    ]);
    expect((await keep("eve@pve", 151)).status).toBe(201);
  });

  it("explain only to who may see the VM", async () => {
    await v1.records.transact((tx) =>
      tx.put(guestCollection, "100", guestRecord({ vmid: 100, type: "qemu", node: "n1", conf: "" })),
    );
    await v1.addUser("joe@pve");
    expect((await v1.ask("GET", "/virtualmachines/100/placement", { as: "joe@pve" })).status).toBe(403);
    expect((await v1.ask("GET", "/virtualmachines/100/placement")).body).toMatchObject({ node: "n1" });
    expect((await v1.ask("GET", "/virtualmachines/999/placement")).status).toBe(404);
    expect(v1.records.collection(nodeRecords).list()).toHaveLength(2);
  });
});

describe("placement of PVE's method", () => {
  const access = { has: () => true, require: () => undefined, privileges: () => new Map() };
  const ctx = {
    actor: { userid: "a@pve", authid: "a@pve" },
    access,
    signal: new AbortController().signal,
  } as never;
  const run = (params: object, route = "POST /nodes/{node}/qemu") =>
    placePveGuest(
      world.scheduler.guests,
      { route, params: { node: "n1", vmid: "100", ...params }, source: "form" },
      ctx,
      async (sent) => sent,
    );

  it("goes to a node with room, which gets the parameters without it", async () => {
    await world.guest(90, "n1", "cores: 4\nmemory: 1024\n");
    world.report("n1", [90]);
    expect(await run({ placement: "auto", cores: "2", pool: "blue" })).toEqual({
      node: "n2",
      vmid: "100",
      cores: "2",
      pool: "blue",
    });
    expect(
      await run(
        { placement: "ha-spread", vmid: "101", ostemplate: "local:vztmpl/x", rootfs: "shared:4" },
        "POST /nodes/{node}/lxc",
      ),
    ).toMatchObject({ node: "n2" });
  });

  it("is refused where it is none, after which the rest is judged as PVE judges it", async () => {
    await expect(run({ placement: "best" })).rejects.toMatchObject({
      errors: { placement: expect.stringContaining("none of auto, balanced") },
    });
    await expect(run({ placement: "auto", cores: "many" })).rejects.toMatchObject({
      errors: { cores: expect.anything() },
    });
    await expect(run({ placement: "auto", archive: "local:backup/vzdump-qemu-1.vma" })).rejects.toThrow(
      /say which node/,
    );
  });
});
