// One ledger for both faces: what /api/v1 bounds, both are held to.
import { afterAll, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { guestCollection, guestRecord } from "@gpve/domain/guest/guest-record.ts";
import { poolsDef } from "@gpve/domain/access/collections.ts";
import { quotasDef, reservationsDef } from "../../application/quota/quota-records.ts";
import { EVERYTHING, openTwoFaces, type TwoFaces } from "../../testing/two-faces.ts";

const ROOT = "root@pam";
let faces: TwoFaces;

beforeAll(async () => {
  faces = await openTwoFaces();
  for (const [authid, path] of [
    ["owner@pve", "/pool/shop"],
    ["provider@pve", "/pool"],
  ] as const)
    await faces.addSubject({ authid, grants: [{ path, role: EVERYTHING, propagate: true }] });
});
afterAll(() => faces.close());
beforeEach(() =>
  faces.records.transact((tx) => {
    for (const def of [quotasDef, reservationsDef])
      for (const { id } of tx.list(def as typeof quotasDef)) tx.delete(def as typeof quotasDef, id);
    for (const poolid of ["shop", "shop/web", "lab"])
      tx.put(poolsDef, poolid, { poolid, vms: [], storage: [] });
    tx.put(poolsDef, "shop", { poolid: "shop", vms: [700], storage: [] });
    const conf = "cores: 2\nmemory: 1024\nscsi0: local:700/vm-700-disk-0.raw,size=1G\n";
    tx.put(guestCollection, "700", guestRecord({ vmid: 700, type: "qemu", node: "n1", conf }));
  }),
);

const quota = (spec: object, namespace: string | undefined = "shop", name = "q") => ({
  apiVersion: "gpve.io/v1",
  kind: "ResourceQuota",
  metadata: { name, namespace },
  spec,
});
const v1 = async (method: string, path: string, body?: unknown, as = ROOT) => {
  const { status, text } = await faces.ask(as, method, `/api/v1${path}`, body);
  return { status, body: JSON.parse(text) as Record<string, never> };
};
const create = (spec: object, namespace?: string) => v1("POST", "/resourcequotas", quota(spec, namespace));

test("shows what is used of what is bounded, and what is over", async () => {
  const spec = { limits: { cpu: 1, memory: "4Gi", storages: { local: "2Gi" } }, overcommit: { memory: 2 } };
  const made = await create(spec);
  expect(made).toMatchObject({ status: 201, body: { metadata: { namespace: "shop" }, spec } });
  expect((await v1("GET", "/resourcequotas/q")).body["status"]).toEqual({
    hard: { limits: { cpu: 1, memory: "8Gi", storages: { local: "2Gi" } } },
    used: { limits: { cpu: 2, memory: "1Gi", storages: { local: "1Gi" } } },
    exceeded: ["limits.cpu"],
  });
});

test.each([
  ["POST /api2/json/nodes/n1/qemu", { vmid: 800, pool: "shop", cores: 3 }, 800],
  ["POST /api2/json/nodes/n1/qemu/700/clone", { newid: 800, pool: "shop/web" }, 800],
  ["PUT /api2/json/nodes/n1/qemu/700/config", { cores: 5 }, 700],
])("refuses on /api2 in PVE's shape: %s", async (request, body, vmid) => {
  await create({ limits: { cpu: 3 } });
  const [method = "", path = ""] = request.split(" ");
  const { status, text } = await faces.ask(ROOT, method, path, body);
  expect(status).toBe(500);
  expect(JSON.parse(text)).toMatchObject({
    data: null,
    message: expect.stringMatching(
      new RegExp(`VM ${vmid}: quota exceeded - cpu of tenant 'shop': used 2, asked \\d, hard 3`),
    ),
  });
  expect(faces.records.collection(reservationsDef).list()).toEqual([]);
});

test("refuses on /api/v1 with a problem that programs can read", async () => {
  await create({ limits: { memory: "2Gi" } });
  const object = {
    apiVersion: "gpve.io/v1",
    kind: "VirtualMachine",
    metadata: { name: "801", namespace: "shop/web" },
    spec: { node: "n1", memory: { size: "2Gi" } },
  };
  expect(await v1("POST", "/virtualmachines", object)).toMatchObject({
    status: 507,
    body: {
      code: "capacity.exceeded",
      detail: expect.stringContaining("memory of tenant 'shop': used 1Gi, asked 2Gi, hard 2Gi (quota 'q')"),
      data: { exceeded: [{ quota: "q", resource: "memory" }] },
    },
  });
});

test("guests are put into a pool only where there is room", async () => {
  await create({ limits: { vmCount: 0 } }, "lab");
  const put = { poolid: "lab", vms: "700", "allow-move": 1 };
  const refused = await faces.ask(ROOT, "PUT", "/api2/json/pools", put);
  expect(refused.status).toBe(500);
  expect(refused.text).toContain(
    "unable to put VM 700 into the pool: quota exceeded - vmCount of tenant 'lab'",
  );
  await v1("PATCH", "/resourcequotas/q", { spec: { limits: { vmCount: 1 } } });
  expect(await faces.ask(ROOT, "PUT", "/api2/json/pools", put)).toMatchObject({ status: 200 });
});

describe("who may", () => {
  test("a tenant sees his own, and only who is above changes it", async () => {
    await create({ limits: { cpu: 3 } });
    const as = (who: string, method: string, path: string, body?: unknown) =>
      v1(method, path, body, who).then(({ status }) => status);
    expect(await as("owner@pve", "GET", "/resourcequotas/q")).toBe(200);
    expect(await as("owner@pve", "PATCH", "/resourcequotas/q", { spec: { limits: { cpu: 99 } } })).toBe(403);
    expect(await as("owner@pve", "DELETE", "/resourcequotas/q")).toBe(403);
    expect(
      await as("owner@pve", "POST", "/resourcequotas", quota({ limits: { cpu: 1 } }, "shop/web", "w")),
    ).toBe(201);
    expect(await as("owner@pve", "POST", "/resourcequotas", quota({ limits: { cpu: 1 } }, "lab", "l"))).toBe(
      403,
    );
    expect(await as("provider@pve", "PATCH", "/resourcequotas/q", { spec: { limits: { cpu: 99 } } })).toBe(
      200,
    );
  });

  test("others do not find it in a list", async () => {
    await create({ limits: { cpu: 3 } }, "lab");
    expect((await v1("GET", "/resourcequotas", undefined, "owner@pve")).body["items"]).toEqual([]);
  });
});

test.each([
  [{ limits: { memory: "4GB" } }, "spec.limits.memory", "did you mean '4Gi'?"],
  [{ limits: { storage: "4gi" } }, "spec.limits.storage", "did you mean '4Gi'?"],
  [{ limits: { cpu: -1 } }, "spec.limits.cpu", "must be >= 0"],
  [{ limits: { vmCount: 1.5 } }, "spec.limits.vmCount", "must be integer"],
  [{ limits: { cpus: 1 } }, "spec.limits.cpus", "did you mean 'cpu'?"],
  [{ limits: { backups: -1 } }, "spec.limits.backups", "must be >= 0"],
  [{ limits: { cpu: 1 }, overcommit: { cpu: 0 } }, "spec.overcommit.cpu", "must be > 0"],
  [
    { limits: { cpu: 1 }, scopeSelector: { priority: "high" } },
    "spec.scopeSelector.priority",
    "must be object",
  ],
  [{}, "spec", "bounds nothing"],
])("says what is wrong with %j", async (spec, field, text) => {
  expect(await create(spec)).toMatchObject({
    status: 400,
    body: { errors: { [field]: expect.stringContaining(text) } },
  });
});

test("belongs to a tenant that is there, and stays there", async () => {
  const field = (text: string) => ({ errors: { "metadata.namespace": expect.stringContaining(text) } });
  const lost = quota({ limits: { cpu: 1 } }, "nowhere");
  expect(await v1("POST", "/resourcequotas", lost)).toMatchObject({
    status: 400,
    body: field("is no tenant"),
  });
  const { metadata: _none, ...rest } = lost;
  const bare = { ...rest, metadata: { name: "q" } };
  expect(await v1("POST", "/resourcequotas", bare)).toMatchObject({
    status: 400,
    body: field("is required"),
  });
  await create({ limits: { cpu: 1 } });
  expect(await v1("PATCH", "/resourcequotas/q", { metadata: { namespace: "lab" } })).toMatchObject({
    status: 400,
    body: field("stays so"),
  });
});

test("goes with its pool", async () => {
  await create({ limits: { cpu: 1 } }, "lab");
  await v1("DELETE", "/tenants/lab");
  expect(await v1("GET", "/resourcequotas/q")).toMatchObject({ status: 404 });
});
