// Virtual machines among applied objects, with a node that keeps configurations as a real one does.
import { plainItems } from "../../testing/plain-items.ts";
import { createHash } from "node:crypto";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { AppError } from "@gpve/contracts/errors.ts";
import { guestCollection, guestRecord } from "@gpve/domain/guest/guest-record.ts";
import type { NodeView } from "@gpve/domain/node/runtime.ts";
import { systemClock } from "@gpve/kit/clock.ts";
import type { OperationEngine } from "@gpve/kit/operation/engine.ts";
import type { MemoryTaskLogs } from "@gpve/kit/testing/memory-task-logs.ts";
import { testEngine } from "@gpve/kit/testing/operation-engine.ts";
import { guestReported } from "../../application/node/guest-reported.ts";
import { applyObjectsOperation, submitApplyTo } from "../../application/v1/apply-objects.ts";
import { silent, startV1, type V1TestServer } from "./testing/v1-server.ts";
import { quietKinds } from "../../testing/quiet-kinds.ts";

let v1: V1TestServer;
let engine: OperationEngine;
let running: Set<number>;
let calls: string[];
/** Routes that fail, and with what. */
let broken: Map<string, string>;
/** What somebody else does while a route is at work. */
let meanwhile: Map<string, () => Promise<unknown>>;
let logs: MemoryTaskLogs;

type Params = Readonly<Record<string, unknown>>;

const confOf = (vmid: number): Record<string, string> => {
  const conf = v1.records.collection(guestCollection).get(String(vmid))?.value.conf ?? "";
  return Object.fromEntries(
    conf
      .split("\n")
      .filter((line) => line.includes(": "))
      .map((line) => line.split(": ") as [string, string]),
  );
};
const put = (vmid: number, values: Record<string, string>, made?: { readonly madeBy: string }) =>
  v1.records.transact((tx) => {
    const { madeBy } = made ?? tx.get(guestCollection, String(vmid))?.value ?? {};
    const conf = Object.entries(values)
      .map(([key, text]) => `${key}: ${text}\n`)
      .join("");
    const guest = { vmid, type: "qemu", node: "n1", conf } as const;
    tx.put(guestCollection, String(vmid), guestRecord(madeBy === undefined ? guest : { ...guest, madeBy }));
  });
const report = (): void => {
  const guests = [...running].map((vmid) => ({ vmid, status: "running", uptimeSeconds: 1, cpu: 0, mem: 0 }));
  v1.views.set("n1", { node: "n1", health: "online", report: { guests } } as unknown as NodeView);
};

async function node(route: string, params: Params, madeBy: string): Promise<null> {
  calls.push(route.replace(/^(\w+) .*\/(?=[^/]+$)/, "$1 "));
  await meanwhile.get(calls.at(-1) ?? "")?.();
  const failure = broken.get(calls.at(-1) ?? "");
  if (failure?.includes("already exists") === true) await put(params["vmid"] as number, { name: "theirs" });
  if (failure !== undefined) throw new AppError("operation.failed", failure);
  const vmid = params["vmid"] as number;
  if (route.startsWith("DELETE ")) {
    await v1.records.transact((tx) => tx.delete(guestCollection, String(vmid)));
  } else if (route.endsWith("/virtual-machines")) {
    const config = { ...(params["config"] as Record<string, string>) };
    delete config["pool"];
    if (config["scsi0"] !== undefined) config["scsi0"] = `local:${vmid}/vm-${vmid}-disk-0.qcow2,size=1G`;
    await put(vmid, { ...config, boot: "order=scsi0", meta: "creation-qemu=7.2.0" }, { madeBy });
    if (params["running"] === true) running.add(vmid);
  } else if (route.endsWith("/config")) {
    const { vmid: _vmid, delete: gone = "", digest, ...set } = params as Record<string, string>;
    const conf = v1.records.collection(guestCollection).get(String(vmid))?.value.conf ?? "";
    if (digest !== createHash("sha1").update(conf).digest("hex"))
      throw new AppError("object.conflict", "checksum mismatch");
    const next = { ...confOf(vmid), ...set };
    for (const key of gone.split(",")) delete next[key];
    await put(vmid, next);
  } else if (route.endsWith("/start")) running.add(vmid);
  else running.delete(vmid);
  report();
  return null;
}

beforeEach(async () => {
  [calls, running, broken, meanwhile] = [[], new Set(), new Map(), new Map()];
  ({ engine, logs } = testEngine());
  v1 = await startV1({
    deps: { submitApply: submitApplyTo(engine, plainItems) },
    vmActions: () => ({
      ...quietKinds.vmActions,
      callNode: (_node, route, params, { requestId }) => node(route, params, requestId),
    }),
  });
  engine.register(
    applyObjectsOperation({
      seals: plainItems,
      records: v1.records,
      clock: systemClock,
      adapters: v1.adapters,
      accessOf: (actor) => v1.directory.view(actor),
      log: silent,
    }),
  );
  await engine.start();
  report();
});
afterEach(async () => {
  await engine.stop();
  await v1.close();
});

const object = (kind: string, name: string, spec: object, more: object = {}) => ({
  apiVersion: "gpve.io/v1",
  kind,
  metadata: { name, ...more },
  spec,
});
const vm = (spec: object, name = "100") =>
  object("VirtualMachine", name, { node: "n1", config: {}, ...spec }, { labels: { tier: "a" } });
const plan = async (...objects: object[]) =>
  (await v1.ask("POST", "/plan", { body: { objects } })).body.items as unknown as {
    action: string;
    changes: object[];
    problem?: { detail: string; errors?: object };
  }[];
const apply = async (...objects: object[]): Promise<string> => {
  const { body } = await v1.ask("POST", "/apply", { body: { objects } });
  if (typeof body["task"] !== "string") return JSON.stringify(body);
  return (await engine.wait(body["task"])).exitStatus ?? "";
};
const config = { name: "web", cores: "2", scsi0: "local:1,format=qcow2", pool: "shop" };
const file = [vm({ running: true, config }), object("Tenant", "shop", {})];

describe("virtual machines that are applied", () => {
  it("are made after what they need, once", async () => {
    expect(await plan(...file)).toMatchObject([
      { kind: "Tenant", action: "create" },
      { kind: "VirtualMachine", action: "create" },
    ]);
    expect(calls).toEqual([]);
    expect(await apply(...file)).toBe("OK");
    expect(calls).toEqual(["POST virtual-machines"]);
    expect((await v1.ask("GET", "/virtualmachines/100")).body).toMatchObject({
      metadata: { labels: { tier: "a" } },
      spec: {
        running: true,
        cpu: { cores: 2 },
        disks: [
          {
            name: "scsi0",
            storage: "local",
            volume: "local:100/vm-100-disk-0.qcow2",
            size: "1Gi",
            boot: true,
          },
        ],
        config: { name: "web" },
      },
    });
    expect((await plan(...file)).map(({ action }) => action)).toEqual(["unchanged", "unchanged"]);
    const { body } = await v1.ask("GET", "/virtualmachines/100");
    const back = { ...body, metadata: { name: "100" }, status: undefined };
    expect((await plan(back)).map(({ action }) => action)).toEqual(["unchanged"]);
  });

  it("are changed, started and stopped as by PUT", async () => {
    await apply(...file);
    calls.length = 0;
    const changed = vm({ running: false, config: { name: "web", cores: "4" } });
    expect(await plan(changed)).toMatchObject([
      {
        action: "update",
        changes: [
          { path: "spec.config.boot", op: "add", after: "order=scsi0" },
          { path: "spec.cpu.cores", op: "replace", before: 2, after: 4 },
          { path: "spec.disks[scsi0]", op: "remove" },
          { path: "spec.running", before: true, after: false },
        ],
        notes: [
          "disk scsi0 is taken out; its volume local:100/vm-100-disk-0.qcow2 is kept as an unused disk",
        ],
      },
    ]);
    expect(await apply(changed)).toBe("OK");
    expect(calls).toEqual(["PUT config", "POST shutdown"]);
    expect(confOf(100)).toEqual({
      boot: "order=scsi0",
      cores: "4",
      meta: "creation-qemu=7.2.0",
      name: "web",
    });
    // Nothing said about running: it stays as it is.
    expect((await plan(vm({ config: { name: "web", cores: "4" } })))[0]?.action).toBe("unchanged");
  });

  it("are refused before anything is done when they cannot be", async () => {
    await put(100, { cores: "2" });
    const refused = await plan(
      vm({ node: "n9" }),
      vm({ config: { moon: "1" } }, "101"),
      vm({ config: { cipassword: "secret" } }, "102"),
      object("VirtualMachine", "103", { node: "n1", config: {} }, { resourceVersion: "7" }),
    );
    expect(refused.map(({ action }) => action)).toEqual(Array(4).fill("refused"));
    const texts = refused.map(({ problem }) => JSON.stringify(problem));
    expect(texts[0]).toContain("there is no node 'n9'");
    expect(refused[1]?.problem?.detail).toContain("spec.config.moon: ");
    expect(texts[2]).toContain("openssl passwd");
    expect((await plan(object("VirtualMachine", "103", { config: {} })))[0]?.action).toBe("create");
    v1.views.set("n2", { node: "n2", health: "online" } as unknown as NodeView);
    expect((await plan(vm({ node: "n2" })))[0]?.problem?.detail).toContain("is on node 'n1'");
    const anywhere = await plan(object("VirtualMachine", "103", { config: {} }));
    expect(anywhere[0]?.problem?.detail).toContain("which node shall have it: n1, n2");
    expect((await plan(vm({ microvm: { kernel: "a:b" } })))[0]?.problem?.detail).toContain("spec.microvm");
    await v1.addUser("joe@pve");
    const asJoe = await v1.ask("POST", "/apply", { as: "joe@pve", body: { objects: [vm({})] } });
    expect(asJoe.status).toBe(403);
    expect(calls).toEqual([]);
  });

  it("show no password, and compare its hash", async () => {
    const hash = "$5$salt$hashhashhash";
    await put(100, { cipassword: hash });
    expect((await v1.ask("GET", "/virtualmachines/100")).body.spec).toMatchObject({
      cloudInit: { password: "**********" },
    });
    expect((await plan(vm({ config: { cipassword: hash } })))[0]?.changes).not.toContainEqual(
      expect.objectContaining({ path: "spec.cloudInit.password" }),
    );
    const other = await plan(vm({ config: { cipassword: "$5$salt$other" } }));
    expect(other[0]?.changes).toContainEqual(expect.objectContaining({ path: "spec.cloudInit.password" }));
    expect(JSON.stringify(other)).not.toContain("$5$");
    const made = await plan(vm({ config: { cipassword: hash } }, "105"));
    expect(made[0]).toMatchObject({ action: "create" });
    expect(JSON.stringify(made)).not.toContain("$5$");
  });

  it("go again, or back to what they were, when a later one fails", async () => {
    await put(100, { cores: "4" });
    await put(103, {});
    broken.set("POST start", "no memory left");
    const failed = await apply(
      vm({ config: { cores: "8" } }),
      vm({ running: true, config: { name: "c" } }, "104"),
      object("VirtualMachine", "103", { node: "n1", running: true, config: {} }),
    );
    // In the order of the file; the last one does not start.
    expect(failed).toContain("no memory left");
    expect(confOf(100)).toEqual({ cores: "4" });
    expect((await v1.ask("GET", "/virtualmachines/104")).status).toBe(404);
    expect((await v1.ask("GET", "/virtualmachines/103")).status).toBe(200);
  });

  it("and whatever else was applied stay as somebody else has changed them since, and the task says so", async () => {
    for (const name of ["changed", "removed", "same"])
      await v1.ask("POST", "/tenants", { body: object("Tenant", name, { comment: "before" }) });
    for (const vmid of [100, 101, 102, 103]) await put(vmid, { cores: "4" });
    running.add(101);
    report();
    broken.set("POST start", "no memory left");
    meanwhile.set("POST start", async () => {
      for (const name of ["changed", "new"])
        await v1.ask("PATCH", `/tenants/${name}`, { body: { spec: { comment: "theirs" } } });
      await v1.ask("PATCH", "/tenants/labelled", { body: { metadata: { labels: { their: "own" } } } });
      await v1.ask("DELETE", "/tenants/removed");
      await put(100, { ...confOf(100), memory: "1024" });
      running.delete(101);
      await put(104, { ...confOf(104), cores: "3" });
      running.add(105);
      report();
    });
    const tenant = (name: string) => object("Tenant", name, { comment: "after" });
    const failed = await apply(
      ...["changed", "removed", "same", "new", "labelled", "fresh"].map(tenant),
      vm({ config: { cores: "8" } }, "100"),
      vm({ config: { cores: "8" } }, "101"),
      vm({ config: { cores: "8" } }, "102"),
      vm({ config: { name: "made" } }, "104"),
      vm({ config: { name: "used" } }, "105"),
      vm({ config: { name: "gone" } }, "106"),
      vm({ running: true, config: { cores: "4" } }, "103"),
    );
    const left = [
      "Tenant changed",
      "Tenant new",
      "Tenant labelled",
      "VirtualMachine 100",
      "VirtualMachine 104",
      "VirtualMachine 105",
    ].map((what) => `${what}: somebody else has changed it since; it was left as it is`);
    const log = [...logs.lines.values()].flat().join("\n");
    for (const line of [
      ...left,
      "Tenant removed: somebody else has removed it since; it was not made again",
    ]) {
      expect(failed).toContain(line);
      expect(log).toContain(line);
    }
    expect(failed).toMatch(/^no memory left; /);
    const tenants = (await v1.ask("GET", "/tenants")).body.items as unknown as {
      metadata: { name: string; labels: object };
      spec: { comment: string };
    }[];
    expect(tenants.map(({ metadata, spec }) => [metadata.name, spec.comment, metadata.labels])).toEqual([
      ["changed", "theirs", {}],
      ["labelled", "after", { their: "own" }],
      ["new", "theirs", {}],
      ["same", "before", {}],
    ]);
    expect(confOf(100)).toEqual({ cores: "8", memory: "1024" });
    expect(confOf(101)).toEqual({ cores: "4" });
    // Stopped by somebody, and the apply had not said anything about that.
    expect(running).toEqual(new Set([105]));
    expect(confOf(102)).toEqual({ cores: "4" });
    expect(confOf(104)).toMatchObject({ name: "made", cores: "3" });
    expect(confOf(105)).toMatchObject({ name: "used" });
    expect((await v1.ask("GET", "/virtualmachines/106")).status).toBe(404);
  });

  it("and fail halfway go back, unless somebody has changed what they did not", async () => {
    await put(100, { cores: "4" });
    broken.set("POST start", "no memory left");
    const half = vm({ running: true, config: { cores: "8" } });
    expect(await apply(half)).toBe("no memory left");
    expect(confOf(100)).toEqual({ cores: "4" });
    meanwhile.set("POST start", () => put(100, { ...confOf(100), memory: "1024" }));
    expect(await apply(half)).toContain("VirtualMachine 100: somebody else has changed it since");
    expect(confOf(100)).toEqual({ cores: "8", memory: "1024" });
  });

  it("that somebody else has made meanwhile are left alone", async () => {
    broken.set("POST virtual-machines", "VM 105 already exists");
    expect(await apply(vm({}, "105"))).toContain("already exists");
    expect(calls).toEqual(["POST virtual-machines"]);
    expect((await v1.ask("GET", "/virtualmachines/105")).status).toBe(200);
  });
});

describe("waiting for a report", () => {
  it("ends with it, with patience or with the request", async () => {
    const listeners = new Set<() => void>();
    let patience: () => void = () => undefined;
    const deps = {
      board: {
        get: () => v1.views.get("n1"),
        onChange: (listener: () => void) => {
          listeners.add(listener);
          return () => listeners.delete(listener);
        },
      },
      clock: {
        after: (_ms: number, run: () => void) => {
          patience = run;
          return () => undefined;
        },
      },
    };
    const guest = { node: "n1", vmid: 100, running: true };
    const never = new AbortController();
    const told = guestReported(deps, guest, never.signal);
    for (const listener of listeners) listener();
    running.add(100);
    report();
    for (const listener of listeners) listener();
    await told;
    await guestReported(deps, guest, never.signal);
    const late = guestReported(deps, { ...guest, running: false }, never.signal);
    patience();
    await late;
    const gone = guestReported(deps, { ...guest, running: false }, never.signal);
    never.abort();
    await gone;
    expect(listeners.size).toBe(0);
  });
});
