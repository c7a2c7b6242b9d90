import { createHash } from "node:crypto";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { guestCollection, guestRecord } from "@gpve/domain/guest/guest-record.ts";
import type { NodeView } from "@gpve/domain/node/runtime.ts";
import { poolsDef } from "@gpve/domain/access/collections.ts";
import { startV1, type V1TestServer } from "./testing/v1-server.ts";
import { quietKinds } from "../../testing/quiet-kinds.ts";

let v1: V1TestServer;
let calls: { readonly route: string; readonly params: Readonly<Record<string, unknown>> }[];

const CONF = [
  "boot: order=scsi0",
  "cores: 2",
  "memory: 1024",
  "name: web",
  "net0: bridge=vmbr0,virtio=BC:24:11:00:00:01",
  "scsi0: local:100/vm-100-disk-0.qcow2,size=10G",
  "",
].join("\n");
/** What a change was judged by goes with it. */
const digest = createHash("sha1").update(CONF).digest("hex");

beforeEach(async () => {
  calls = [];
  v1 = await startV1({
    vmActions: () => ({
      ...quietKinds.vmActions,
      callNode: async (_node, route, params) => {
        calls.push({ route: route.replace(/^(\w+) .*\/(?=[^/]+$)/, "$1 "), params });
        return null;
      },
    }),
  });
  v1.views.set("n1", { node: "n1", health: "online" } as unknown as NodeView);
  await v1.records.transact((tx) =>
    tx.put(guestCollection, "100", guestRecord({ vmid: 100, type: "qemu", node: "n1", conf: CONF })),
  );
  for (const name of ["shop", "lab"])
    await v1.ask("POST", "/tenants", {
      body: { apiVersion: "gpve.io/v1", kind: "Tenant", metadata: { name }, spec: {} },
    });
});
afterEach(() => v1.close());

const vm = (spec: object, metadata: object = {}) => ({
  apiVersion: "gpve.io/v1",
  kind: "VirtualMachine",
  metadata: { name: "100", ...metadata },
  spec,
});
const patch = (spec: object, metadata: object = {}) =>
  v1.ask("PATCH", "/virtualmachines/100", { body: { spec, metadata } });
const plan = async (object: object) => {
  const { body } = await v1.ask("POST", "/plan", { body: { objects: [object] } });
  return (
    body["items"] as unknown as {
      action: string;
      changes: object[];
      notes?: string[];
      problem?: { errors?: object };
    }[]
  )[0];
};
const errorsOf = async (object: object) => (await plan(object))?.problem?.errors;
const typed = {
  cpu: { cores: 2 },
  memory: { size: "1Gi" },
  disks: [{ name: "scsi0", storage: "local", size: "10Gi" }],
  networks: [{ name: "net0", bridge: "vmbr0" }],
  config: { name: "web" },
};

describe("typed fields of virtual machines", () => {
  it("make one as its configuration would", async () => {
    const body = vm({ ...typed, vmid: 101, node: "n1" }, { name: "101", namespace: "shop" });
    // The node that is asked here makes nothing.
    expect((await v1.ask("POST", "/virtualmachines", { body })).status).toBe(409);
    expect(calls).toEqual([
      {
        route: "POST virtual-machines",
        params: {
          vmid: 101,
          pool: "shop",
          config: {
            cores: "2",
            memory: "1024",
            scsi0: "local:10",
            net0: "virtio,bridge=vmbr0",
            name: "web",
            pool: "shop",
          },
          running: undefined,
          microvm: undefined,
        },
      },
    ]);
  });

  it("are shown beside the keys that have none, and PVE's text where it is written otherwise", async () => {
    const { spec } = (await v1.ask("GET", "/virtualmachines/100")).body;
    expect(spec).toEqual({
      node: "n1",
      running: false,
      cpu: { cores: 2 },
      memory: { size: "1Gi" },
      disks: [
        {
          name: "scsi0",
          storage: "local",
          volume: "local:100/vm-100-disk-0.qcow2",
          size: "10Gi",
          boot: true,
        },
      ],
      networks: [{ name: "net0", model: "virtio", macAddress: "BC:24:11:00:00:01", bridge: "vmbr0" }],
      config: { name: "web", net0: "bridge=vmbr0,virtio=BC:24:11:00:00:01" },
    });
  });

  it("that ask for what is there change nothing", async () => {
    expect(await plan(vm(typed))).toMatchObject({ action: "unchanged", changes: [] });
    expect(
      await plan(
        vm({
          config: { cores: "2", memory: "1024", name: "web", scsi0: "local:10", net0: "virtio,bridge=vmbr0" },
        }),
      ),
    ).toMatchObject({
      action: "unchanged",
    });
    const { body } = await v1.ask("GET", "/virtualmachines/100");
    expect((await v1.ask("PUT", "/virtualmachines/100", { body })).status).toBe(200);
    expect((await v1.ask("PUT", "/virtualmachines/100", { body: vm(typed) })).status).toBe(200);
    // A PUT names the boot order too: left out, it goes.
    expect(calls).toEqual([{ route: "PUT config", params: { vmid: 100, delete: "boot", digest } }]);
  });

  it("are patched, and patched through the keys behind them", async () => {
    expect(
      (await patch({ cpu: { cores: 4 }, networks: [{ name: "net0", bridge: "vmbr1", vlan: 7 }] })).status,
    ).toBe(200);
    expect(calls.at(-1)?.params).toEqual({
      vmid: 100,
      digest,
      cores: "4",
      // Its address stays.
      net0: "virtio=BC:24:11:00:00:01,bridge=vmbr1,tag=7",
    });
    expect((await patch({ config: { memory: "2048", cores: null } })).status).toBe(200);
    expect(calls.at(-1)?.params).toEqual({ vmid: 100, digest, memory: "2048", delete: "cores" });
    expect((await patch({ memory: { size: null }, networks: null })).status).toBe(200);
    expect(calls.at(-1)?.params).toEqual({ vmid: 100, digest, delete: "net0,memory" });
    const both = await patch({ config: { cores: "4" }, cpu: { cores: 8 } });
    expect(both.status).toBe(400);
    expect(both.body["errors"]).toEqual({
      "spec.config.cores": "is '4', but '8' is asked for by the patch's typed fields: say it once",
    });
    expect(calls).toHaveLength(3);
  });

  it("let disks grow, and refuse to shrink them", async () => {
    const grown = { ...typed, disks: [{ name: "scsi0", storage: "local", size: "20Gi" }] };
    expect((await plan(vm(grown)))?.changes).toEqual([
      { path: "spec.disks[scsi0].size", op: "replace", before: "10Gi", after: "20Gi" },
    ]);
    const { body } = await v1.ask("GET", "/virtualmachines/100");
    const [disk] = (body.spec as unknown as { disks: object[] }).disks;
    expect((await patch({ disks: [{ ...disk, size: "20Gi", cache: "writeback" }] })).status).toBe(200);
    expect(calls).toEqual([
      {
        route: "PUT config",
        params: { vmid: 100, digest, scsi0: "local:100/vm-100-disk-0.qcow2,cache=writeback,size=10G" },
      },
      { route: "PUT resize", params: { vmid: 100, disk: "scsi0", size: "20G" } },
    ]);
    calls.length = 0;
    expect((await patch({ disks: [{ ...disk, size: "20Gi" }] })).status).toBe(200);
    expect(calls).toEqual([
      { route: "PUT resize", params: { vmid: 100, digest, disk: "scsi0", size: "20G" } },
    ]);
    expect(
      await errorsOf(vm({ ...typed, disks: [{ name: "scsi0", storage: "local", size: "5Gi" }] })),
    ).toEqual({
      "spec.disks[scsi0].size": "is 5GiB, but the disk has 10GiB: disks grow, and do not shrink",
    });
  });

  it("say in the plan what another name of a disk does", async () => {
    const renamed = await plan(
      vm({ ...typed, disks: [{ name: "virtio0", storage: "local", size: "10Gi" }] }),
    );
    expect(renamed?.changes).toMatchObject([
      { path: "spec.config.boot", op: "add" },
      { path: "spec.disks[scsi0]", op: "remove" },
      { path: "spec.disks[virtio0]", op: "add", after: { name: "virtio0", storage: "local", size: "10Gi" } },
    ]);
    expect(renamed?.notes).toEqual([
      "disk scsi0 is taken out; its volume local:100/vm-100-disk-0.qcow2 is kept as an unused disk",
      "disk virtio0 is made new and empty",
      "a disk is not renamed by another name: to have local:100/vm-100-disk-0.qcow2 as virtio0, give it as the volume there",
    ]);
    const volume = "local:100/vm-100-disk-0.qcow2";
    const moved = await plan(vm({ ...typed, disks: [{ name: "virtio0", volume, size: "10Gi" }] }));
    expect(moved?.notes).toBeUndefined();
  });

  it("are refused where they contradict config, vmid or namespace, with both values", async () => {
    expect(await errorsOf(vm({ ...typed, config: { cores: "4" } }))).toEqual({
      "spec.config.cores": "is '4', but spec.cpu.cores is 2: say it once",
    });
    expect(await errorsOf(vm({ ...typed, vmid: 200 }))).toEqual({
      "spec.vmid": "is 200, but metadata.name is '100'",
    });
    const fresh = vm({ node: "n1", config: { pool: "lab" } }, { name: "101", namespace: "shop" });
    expect(await errorsOf(fresh)).toEqual({
      "spec.config.pool": "is 'lab', but metadata.namespace is 'shop': say it once",
    });
  });

  it("are refused by name where nobody can mean them", async () => {
    expect(await errorsOf(vm({ memory: { size: "4GB" } }))).toEqual({
      "spec.memory.size": "'4GB' is no size: write a number and Ki, Mi, Gi, Ti or Pi; did you mean '4Gi'?",
    });
    expect(await errorsOf(vm({ cpu: { core: 2 } }))).toEqual({
      "spec.cpu.core": "is not a known field; did you mean 'cores'?",
    });
    expect(
      await errorsOf(vm({ disks: [{ name: "scsi0", storage: "local", size: "1Gi", cach: "none" }] })),
    ).toEqual({
      "spec.disks.0.cach": "is not a known field; did you mean 'cache'?",
    });
    // PVE's own rules, under the field's name.
    expect(await errorsOf(vm({ networks: [{ name: "net0", vlan: 9000 }] }))).toHaveProperty([
      "spec.networks[net0]",
    ]);
    const user = {
      apiVersion: "gpve.io/v1",
      kind: "Tenant",
      metadata: { name: "x", namespace: "y" },
      spec: {},
    };
    expect(await errorsOf(user)).toEqual({
      "metadata.namespace": "a Tenant belongs to no tenant; leave it out",
    });
  });

  it("show the tenant as their namespace, as soon as it changes", async () => {
    const join = (poolid: string, vms: readonly number[]) =>
      v1.records.transact((tx) => tx.put(poolsDef, poolid, { poolid, vms: [...vms], storage: [] }));
    const namespace = async () =>
      ((await v1.ask("GET", "/virtualmachines/100")).body.metadata as { namespace?: string }).namespace;
    expect(await namespace()).toBeUndefined();
    await join("shop", [100]);
    expect(await namespace()).toBe("shop");
    expect((await plan(vm(typed, { namespace: "shop" })))?.action).toBe("unchanged");
    expect(JSON.stringify(await plan(vm(typed, { namespace: "lab" })))).toContain(
      "VM 100 is in tenant 'shop', but metadata.namespace is 'lab'",
    );
    expect((await patch({}, { namespace: "lab" })).status).toBe(501);
    await join("shop", []);
    expect((await v1.ask("GET", "/virtualmachines")).body.items).toMatchObject([
      { metadata: { name: "100" } },
    ]);
    expect(await namespace()).toBeUndefined();
  });
});
