// Quotas on the product as users start it: real disks and guests, both faces, kill -9 in the middle.
import { readFileSync } from "node:fs";
import { Agent, request } from "node:https";
import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, beforeAll, expect, test } from "vitest";
import { startGpve, type Gpve } from "../support/gpve.ts";

const COUNT = Number(process.env["GPVE_QUOTA_REQUESTS"] ?? 30);
const TENANTS = ["a", "a/b", "c"];
/** `a/b` also counts in `a`. */
const HARD: Readonly<Record<string, number>> = {
  a: Math.ceil(COUNT / 5),
  "a/b": Math.ceil(COUNT / 8),
  c: Math.ceil(COUNT / 6),
};

let gpve: Gpve;
let agent: Agent;
let node: string;
beforeAll(async () => {
  gpve = await startGpve();
  agent = new Agent({ keepAlive: true, maxSockets: 20, ca: readFileSync(gpve.credentials.caFile) });
  const nodes = (await api2("GET", "/nodes")).data as readonly { node: string }[];
  node = nodes[0]?.node ?? "";
});
afterAll(async () => {
  agent.destroy();
  await gpve.stop();
});

interface Answer {
  readonly status: number;
  readonly message: string;
  readonly data: unknown;
  readonly json: Readonly<Record<string, unknown>>;
}

function call(method: string, path: string, body?: unknown): Promise<Answer> {
  const { url, token } = gpve.credentials;
  const headers = {
    Authorization: `PVEAPIToken=${token}`,
    ...(body === undefined ? {} : { "Content-Type": "application/json" }),
  };
  return new Promise((done, fail) => {
    const req = request(new URL(path, url), { method, agent, headers }, (res) => {
      let text = "";
      res.on("data", (chunk: Buffer) => (text += chunk.toString()));
      res.on("error", fail);
      res.on("end", () => {
        const json = text.startsWith("{") ? (JSON.parse(text) as Record<string, unknown>) : {};
        const said = json as { readonly message?: string; readonly detail?: string };
        const message = said.message ?? said.detail ?? res.statusMessage ?? "";
        done({ status: res.statusCode ?? 0, message, data: json["data"], json });
      });
    });
    req.on("error", fail);
    req.end(body === undefined ? undefined : JSON.stringify(body));
  });
}

const api2 = (method: string, path: string, body?: unknown) => call(method, `/api2/json${path}`, body);
const v1 = (method: string, path: string, body?: unknown) => call(method, `/api/v1${path}`, body);
const object = (kind: string, metadata: object, spec: object) => ({
  apiVersion: "gpve.io/v1",
  kind,
  metadata,
  spec,
});

async function done(answer: Answer): Promise<string> {
  expect(answer.status, answer.message).toBe(200);
  const upid = encodeURIComponent(String(answer.data));
  for (;;) {
    const { data } = await api2("GET", `/nodes/${node}/tasks/${upid}/status`);
    const { status, exitstatus } = data as { status: string; exitstatus?: string };
    if (status === "stopped") return exitstatus ?? "";
    await sleep(100);
  }
}

async function used(name: string): Promise<Readonly<Record<string, unknown>>> {
  const { json } = await v1("GET", `/resourcequotas/${encodeURIComponent(name)}`);
  const { used: of } = json["status"] as { used: { limits?: object; requests?: object } };
  return { ...of.limits, running: of.requests };
}

/** Guests of a tenant and of those in it, by the list of all guests. */
async function there(tenant: string): Promise<number> {
  const rows = (await api2("GET", "/cluster/resources?type=vm")).data as readonly {
    pool?: string;
    template?: number;
  }[];
  return rows.filter(
    ({ pool = "", template }) => template !== 1 && (pool === tenant || pool.startsWith(`${tenant}/`)),
  ).length;
}

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
  await expect.poll(async () => (await used("run"))["running"], { timeout: 20_000 }).toEqual({ vmCount: 0 });
  expect(await done(await start())).toBe("OK");
  await done(await api2("POST", `${qemu}/111/status/stop`, {}));
});

test("many at once by three tenants on both faces, killed in between: never over, exact at the end", async () => {
  for (const name of TENANTS) {
    await v1("POST", "/tenants", object("Tenant", { name }, {}));
    await v1(
      "POST",
      "/resourcequotas",
      object("ResourceQuota", { name, namespace: name }, { limits: { vmCount: HARD[name] } }),
    );
  }
  const qemu = `/nodes/${node}/qemu`;
  await done(await api2("POST", qemu, { vmid: 900, memory: "32", scsi0: "local:0.001" }));
  await done(await api2("POST", `${qemu}/900/template`, {}));
  const one = async (index: number): Promise<number> => {
    const [pool = "", vmid] = [TENANTS[index % 3], 1000 + index];
    try {
      if (index % 4 === 0)
        return (await api2("POST", qemu, { vmid, pool, memory: "32", scsi0: "local:0.001" })).status;
      if (index % 4 === 1) {
        const spec = { node, memory: { size: "32Mi" } };
        return (
          await v1(
            "POST",
            "/virtualmachines",
            object("VirtualMachine", { name: String(vmid), namespace: pool }, spec),
          )
        ).status;
      }
      return (await api2("POST", `${qemu}/900/clone`, { newid: vmid, pool })).status;
    } catch {
      return 0; // the server was killed
    }
  };
  const over = async (): Promise<readonly string[]> => {
    const found: string[] = [];
    for (const name of TENANTS) if ((await there(name)) > (HARD[name] ?? 0)) found.push(name);
    return found;
  };
  const before = Array.from({ length: COUNT }, (_, index) => one(index));
  await Promise.race(before);
  await sleep(COUNT * 10);
  await gpve.kill();
  await Promise.all(before);
  gpve = await gpve.restart();
  expect(await over()).toEqual([]);
  const after = await Promise.all(Array.from({ length: COUNT }, (_, index) => one(COUNT + index)));
  expect(await over()).toEqual([]);
  expect(after).toContain(500);
  const exact = async () =>
    Promise.all(TENANTS.map(async (name) => [name, (await used(name))["vmCount"], await there(name)]));
  // What the killed server had promised is held for a minute: a node might still be about to begin.
  await expect
    .poll(async () => (await exact()).every(([, ledger, records]) => ledger === records), {
      timeout: 120_000,
      interval: 1000,
    })
    .toBe(true);
  // With nothing promised any more, every tenant gets exactly what it may have.
  for (const [round, name] of TENANTS.entries())
    for (let index = 0; index <= (HARD[name] ?? 0); index++)
      await api2("POST", qemu, { vmid: 5000 + round * 1000 + index, pool: name, memory: "32" });
  await expect.poll(async () => there("c"), { timeout: 60_000 }).toBe(HARD["c"]);
  expect(await there("a")).toBe(HARD["a"]);
  expect(await over()).toEqual([]);
});
