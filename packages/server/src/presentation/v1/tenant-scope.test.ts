import { given } from "@gpve/contracts/given.ts";
import { afterEach, beforeEach, expect, test } from "vitest";
import { guestCollection, guestRecord } from "@gpve/domain/guest/guest-record.ts";
import { poolsDef } from "@gpve/domain/access/collections.ts";
import { eventCollection } from "../../application/v1/events.ts";
import { startV1, type V1TestServer } from "./testing/v1-server.ts";

let v1: V1TestServer;
const quota = (name: string, namespace?: string) => ({
  apiVersion: "gpve.io/v1",
  kind: "ResourceQuota",
  metadata: { name, ...given({ namespace }) },
  spec: { limits: { cpu: 1 } },
});
const names = async (path: string, as = "root@pam"): Promise<readonly string[]> => {
  const { status, body } = await v1.ask("GET", path, { as });
  expect(status).toBe(200);
  return body.items.map(({ metadata }) => metadata.name);
};

beforeEach(async () => {
  v1 = await startV1();
  await v1.records.transact((tx) => {
    for (const [poolid, vmid] of [
      ["shop", 100],
      ["shop/web", 101],
      ["lab", 102],
    ] as const) {
      tx.put(poolsDef, poolid, { poolid, vms: [vmid], storage: [] });
      tx.put(
        guestCollection,
        String(vmid),
        guestRecord({ vmid, type: "qemu", node: "n1", conf: "name: x\n" }),
      );
    }
  });
});
afterEach(() => v1.close());

test("lists what is of the tenant, nested ones by their encoded name, with selectors as usual", async () => {
  expect(await names("/virtualmachines")).toEqual(["100", "101", "102"]);
  expect(await names("/tenants/shop/virtualmachines")).toEqual(["100"]);
  expect(await names("/tenants/shop%2Fweb/virtualmachines")).toEqual(["101"]);
  expect(await names("/tenants/shop/virtualmachines?fieldSelector=status.name%3Dx")).toEqual(["100"]);
  expect(await names("/tenants/shop/virtualmachines?fieldSelector=status.name%3Dy")).toEqual([]);
  expect(await names("/tenants/shop/virtualmachines?fieldSelector=metadata.namespace%3Dlab")).toEqual([]);
  expect(await names("/tenants/nowhere/virtualmachines")).toEqual([]);
});

test("shows an object as the flat path does, and none of another tenant", async () => {
  const flat = await v1.ask("GET", "/virtualmachines/100");
  expect((await v1.ask("GET", "/tenants/shop/virtualmachines/100")).body).toEqual(flat.body);
  for (const method of ["GET", "DELETE"])
    expect((await v1.ask(method, "/tenants/lab/virtualmachines/100")).status).toBe(404);
});

test("what is made there is the tenant's; another in the body is refused", async () => {
  const made = await v1.ask("POST", "/tenants/shop/resourcequotas", { body: quota("q") });
  expect(made).toMatchObject({ status: 201, body: { metadata: { namespace: "shop" } } });
  const wrong = await v1.ask("POST", "/tenants/shop/resourcequotas", { body: quota("p", "lab") });
  expect(wrong).toMatchObject({
    status: 400,
    body: { errors: { "metadata.namespace": expect.stringContaining("'shop'") } },
  });
  expect(await names("/tenants/shop/resourcequotas")).toEqual(["q"]);
  expect((await v1.ask("PATCH", "/tenants/lab/resourcequotas/q", { body: { spec: {} } })).status).toBe(404);
  expect((await v1.ask("DELETE", "/tenants/shop/resourcequotas/q")).status).toBe(200);
});

test("permissions are those of the flat path: nobody sees more, and nobody learns what is there", async () => {
  await v1.addUser("joe@pve", { grants: [["/pool/lab", "PVEAdmin"]] });
  await v1.addUser("ann@pve");
  expect(await names("/tenants/shop/virtualmachines", "joe@pve")).toEqual([]);
  expect(await names("/tenants/lab/virtualmachines", "joe@pve")).toEqual(
    await names("/virtualmachines", "joe@pve"),
  );
  const answers = await Promise.all(
    ["/virtualmachines/100", "/tenants/shop/virtualmachines/100", "/tenants/lab/virtualmachines/100"].map(
      async (path) => (await v1.ask("GET", path, { as: "ann@pve" })).status,
    ),
  );
  expect(answers).toEqual([403, 403, 403]);
});

test("events of VMs are the tenant's to see; those of others, of nodes and of clusters are not", async () => {
  await v1.addUser("joe@pve", { grants: [["/pool/shop", "PVEVMUser"]] });
  const ids = [0, 1, 2, 3].map((index) => `01J00000000000000000000${index}AB`.slice(-26));
  await v1.records.transact((tx) => {
    for (const [index, object] of [
      { kind: "VirtualMachine", name: "100", namespace: "shop" },
      { kind: "VirtualMachine", name: "102", namespace: "lab" },
      { kind: "Node", name: "n1" },
      { kind: "VirtualCluster", name: "dev", namespace: "shop" },
    ].entries())
      tx.put(eventCollection, ids[index] ?? "", {
        type: "Normal",
        reason: "VMStarted",
        message: "runs",
        object,
        node: "n1",
        count: 1,
        firstAt: 1,
        lastAt: 1,
      });
  });
  expect(await names("/events")).toHaveLength(4);
  expect(await names("/events", "joe@pve")).toEqual([ids[0]]);
  expect(await names("/tenants/shop/events", "joe@pve")).toEqual([ids[0]]);
  expect(await names("/tenants/lab/events", "joe@pve")).toEqual([]);
  expect((await v1.ask("GET", `/events/${ids[1]}`, { as: "joe@pve" })).status).toBe(403);
});
