// Quotas on the product as users start it: real disks and guests, both faces.
import { afterAll, beforeAll, expect, test } from "vitest";
import { startGpve, type Gpve } from "../support/gpve.ts";
import { object, QuotaClient } from "../support/quota-crowd.ts";

let gpve: Gpve;
let client: QuotaClient;
let node: string;
beforeAll(async () => {
  gpve = await startGpve();
  client = new QuotaClient(() => gpve.credentials);
  node = await client.node();
});
afterAll(async () => {
  client.close();
  await gpve.stop();
});

const api2: QuotaClient["api2"] = (...args) => client.api2(...args);
const v1: QuotaClient["v1"] = (...args) => client.v1(...args);
const done: QuotaClient["done"] = (answer) => client.done(answer);
const used: QuotaClient["used"] = (name) => client.used(name);

test("counts real disks, those that became unused too, and asks the node for sizes only it knows", async () => {
  await v1("POST", "/tenants", object("Tenant", { name: "disks" }, {}));
  const quota = object(
    "ResourceQuota",
    { name: "disks", namespace: "disks" },
    { limits: { storage: "64Mi", vmCount: 2 } },
  );
  expect((await v1("POST", "/resourcequotas", quota)).status).toBe(201);
  const qemu = `/nodes/${node}/qemu`;
  expect(
    await done(await api2("POST", qemu, { vmid: 100, pool: "disks", memory: "32", scsi0: "local:0.03125" })),
  ).toBe("OK");
  expect(await used("disks")).toMatchObject({ storage: "32Mi", vmCount: 1 });
  await api2("PUT", `${qemu}/100/config`, { delete: "scsi0" });
  expect(await used("disks")).toMatchObject({ storage: "32Mi" });
  const grow = await api2("PUT", `${qemu}/100/config`, { scsi1: "local:0.0625" });
  expect(grow).toMatchObject({
    status: 500,
    message: expect.stringContaining("used 32Mi, asked 64Mi, hard 64Mi"),
  });
  const { data } = await api2("GET", `${qemu}/100/config`);
  const volume = (data as Record<string, string>)["unused0"] ?? "";
  const twice = { scsi1: `local:0,import-from=${volume}`, scsi2: `local:0,import-from=${volume}` };
  expect(await api2("PUT", `${qemu}/100/config`, twice)).toMatchObject({
    message: expect.stringContaining("used 32Mi, asked 64Mi"),
  });
  expect(await done(await api2("POST", `/nodes/${node}/vzdump`, { vmid: "100", storage: "local" }))).toBe(
    "OK",
  );
  await api2("PUT", `${qemu}/100/config`, { scsi0: volume });
  expect(await done(await api2("POST", `/nodes/${node}/vzdump`, { vmid: "100", storage: "local" }))).toBe(
    "OK",
  );
  await v1("PATCH", "/resourcequotas/disks", { spec: { limits: { storage: "40Mi" } } });
  const content = (await api2("GET", `/nodes/${node}/storage/local/content?content=backup`))
    .data as readonly { volid: string }[];
  const archive = content
    .map(({ volid }) => volid)
    .toSorted()
    .at(-1);
  const restored = await api2("POST", qemu, { vmid: 101, pool: "disks", archive });
  expect(restored).toMatchObject({
    status: 500,
    message: expect.stringContaining("used 32Mi, asked 32Mi, hard 40Mi"),
  });
});

test("bounds what runs at once, by what really runs", async () => {
  await v1("POST", "/tenants", object("Tenant", { name: "run" }, {}));
  const quota = object("ResourceQuota", { name: "run", namespace: "run" }, { requests: { vmCount: 1 } });
  await v1("POST", "/resourcequotas", quota);
  const qemu = `/nodes/${node}/qemu`;
  for (const vmid of [110, 111])
    await done(await api2("POST", qemu, { vmid, pool: "run", memory: "32", kvm: 0 }));
  expect(await done(await api2("POST", `${qemu}/110/status/start`, {}))).toBe("OK");
  const start = () => api2("POST", `${qemu}/111/status/start`, {});
  expect(await start()).toMatchObject({
    status: 500,
    message: expect.stringContaining("may run at once: used 1, asked 1, hard 1"),
  });
  expect(await done(await api2("POST", `${qemu}/110/status/stop`, {}))).toBe("OK");
  await expect.poll(async () => (await used("run"))["running"], { timeout: 150_000 }).toEqual({ vmCount: 0 });
  expect(await done(await start())).toBe("OK");
  await done(await api2("POST", `${qemu}/111/status/stop`, {}));
});

test("backups of a guest that is gone count on for its tenant, and not for the next guest with its id", async () => {
  await v1("POST", "/tenants", object("Tenant", { name: "saved" }, {}));
  const quota = object("ResourceQuota", { name: "saved", namespace: "saved" }, { limits: { backups: 1 } });
  expect((await v1("POST", "/resourcequotas", quota)).status).toBe(201);
  const qemu = `/nodes/${node}/qemu`;
  const make = (pool: object) =>
    api2("POST", qemu, { vmid: 120, memory: "32", scsi0: "local:0.001", ...pool });
  const backUp = () => api2("POST", `/nodes/${node}/vzdump`, { vmid: "120", storage: "local" });
  const full = { message: expect.stringContaining("backups of tenant 'saved': used 1, asked 1, hard 1") };
  expect(await done(await make({ pool: "saved" }))).toBe("OK");
  expect(await done(await backUp())).toBe("OK");
  expect(await done(await api2("DELETE", `${qemu}/120`))).toBe("OK");
  expect(await used("saved")).toMatchObject({ backups: 1 });
  // Archives are told apart by when they were made, to the second.
  await new Promise((passed) => setTimeout(passed, 1100));
  expect(await done(await make({}))).toBe("OK");
  expect(await done(await backUp())).toBe("OK");
  expect(await done(await api2("DELETE", `${qemu}/120`))).toBe("OK");
  expect(await done(await make({ pool: "saved" }))).toBe("OK");
  expect(await backUp()).toMatchObject(full);
  const [first] = (
    (await api2("GET", `/nodes/${node}/storage/local/content?content=backup&vmid=120`)).data as {
      volid: string;
    }[]
  ).toSorted((a, b) => a.volid.localeCompare(b.volid));
  const removed = await api2(
    "DELETE",
    `/nodes/${node}/storage/local/content/${encodeURIComponent(first?.volid ?? "")}`,
  );
  expect(await done(removed)).toBe("OK");
  expect(await used("saved")).toMatchObject({ backups: 0 });
  expect(await done(await backUp())).toBe("OK");
});
