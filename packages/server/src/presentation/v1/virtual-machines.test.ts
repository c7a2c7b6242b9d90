import { parameterError } from "@gpve/domain/request/failures.ts";
import { createHash } from "node:crypto";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { AppError } from "@gpve/contracts/errors.ts";
import { guestCollection, guestRecord } from "@gpve/domain/guest/guest-record.ts";
import type { NodeView } from "@gpve/domain/node/runtime.ts";
import { taskRecordId } from "@gpve/domain/task/task-record.ts";
import type { Records } from "@gpve/store/records/port.ts";
import { taskRecords } from "@gpve/domain/task/task-record.ts";
import { taskEnd } from "../../application/task/task-end.ts";
import { startV1, type V1TestServer } from "./testing/v1-server.ts";
import { quietKinds } from "../../testing/quiet-kinds.ts";

const UPID = "UPID:n1:00000001:00000002:65000000:qmcreate:100:root@pam:";

let v1: V1TestServer;
let calls: { route: string; params: Readonly<Record<string, unknown>> }[];
let answer: (route: string, params: Readonly<Record<string, unknown>>) => unknown;

const put = (records: Records, vmid: number, conf: string): Promise<void> =>
  records.transact((tx) => {
    tx.put(guestCollection, String(vmid), guestRecord({ vmid, type: "qemu", node: "n1", conf }));
  });

beforeEach(async () => {
  calls = [];
  answer = () => null;
  v1 = await startV1({
    vmActions: (records) => ({
      ...quietKinds.vmActions,
      callNode: async (_node, route, params) => {
        calls.push({ route, params });
        return answer(route, params);
      },
      taskEnd: (upid, signal) => taskEnd(records, upid, signal),
    }),
  });
});
afterEach(() => v1.close());

const vm = (spec: object, name = "100") => ({
  apiVersion: "gpve.io/v1",
  kind: "VirtualMachine",
  metadata: { name, labels: { tier: "a" } },
  spec: { node: "n1", config: {}, ...spec },
});
const ended = (exitstatus: string) =>
  v1.records.transact((tx) => {
    tx.put(taskRecords, taskRecordId(UPID) ?? "", { upid: UPID, endtime: 1, exitstatus });
  });

describe("virtual machines", () => {
  it("show configuration and state to those who may see them", async () => {
    const conf =
      "cores: 2\nmemory: 64\nname: web\ntags: a;b\n\n[PENDING]\ncores: 4\n\n[one]\ncores: 1\nsnaptime: 1\n";
    await put(v1.records, 100, conf);
    expect((await v1.ask("GET", "/virtualmachines/100")).body).toMatchObject({
      spec: {
        node: "n1",
        running: false,
        cpu: { cores: 4 },
        memory: { size: "64Mi" },
        config: { name: "web" },
      },
      status: {
        state: "unknown",
        name: "web",
        cpus: 2,
        tags: ["a", "b"],
        pending: ["cores"],
        snapshots: ["one"],
      },
    });
    const guests = [{ vmid: 100, type: "qemu", status: "running", uptimeSeconds: 5, cpu: 0.5, mem: 7 }];
    v1.views.set("n1", { node: "n1", health: "online", report: { guests } } as unknown as NodeView);
    expect(
      (await v1.ask("GET", "/virtualmachines?fieldSelector=status.state%3Drunning")).body.items,
    ).toMatchObject([
      { spec: { running: true }, status: { uptimeSeconds: 5, usage: { cpu: 0.5, memoryBytes: 7 } } },
    ]);
    await v1.addUser("joe@pve");
    expect((await v1.ask("GET", "/virtualmachines", { as: "joe@pve" })).body.items).toEqual([]);
    await v1.records.transact((tx) =>
      tx.put(guestCollection, "101", guestRecord({ vmid: 101, type: "lxc", node: "n1", conf: "" })),
    );
    expect((await v1.ask("GET", "/virtualmachines/101")).status).toBe(404);
  });

  it("are made by their node, once", async () => {
    answer = () => {
      // The node's work goes on after its answer.
      void put(v1.records, 100, "name: web\n").then(() => ended("OK"));
      return UPID;
    };
    const headers = { "Idempotency-Key": "k1" };
    const body = vm({ config: { name: "web" }, running: true, microvm: { kernel: "local:snippets/k" } });
    const made = await v1.ask("POST", "/virtualmachines", { body, headers });
    expect(made.status, JSON.stringify(made.body)).toBe(201);
    expect(made.body).toMatchObject({
      metadata: { labels: { tier: "a" } },
      spec: { config: { name: "web" } },
    });
    expect(calls).toEqual([
      {
        route: "POST /gpve/nodes/{node}/virtual-machines",
        params: {
          vmid: 100,
          pool: undefined,
          config: { name: "web" },
          running: true,
          microvm: { kernel: "local:snippets/k" },
        },
      },
    ]);
    expect((await v1.ask("POST", "/virtualmachines", { body, headers })).status).toBe(201);
    expect(calls).toHaveLength(1);
    expect((await v1.ask("POST", "/virtualmachines", { body })).status).toBe(409);
    await v1.addUser("joe@pve");
    expect((await v1.ask("POST", "/virtualmachines", { body: vm({}, "105"), as: "joe@pve" })).status).toBe(
      403,
    );
  });

  it("that cannot be made say why", async () => {
    answer = () => {
      void ended("storage 'x' does not exist");
      return UPID;
    };
    const failed = await v1.ask("POST", "/virtualmachines", { body: vm({}) });
    expect(failed.status).toBe(500);
    expect(failed.body["detail"]).toContain("storage 'x' does not exist");
    answer = () => {
      throw parameterError({ cores: "no" });
    };
    // In the words of what was written: a field, or a key.
    const asField = await v1.ask("POST", "/virtualmachines", { body: vm({ cpu: { cores: 3 } }) });
    expect(asField).toMatchObject({
      status: 400,
      body: { detail: "spec.cpu: no", errors: { "spec.cpu": "no" } },
    });
    const asKey = await v1.ask("POST", "/virtualmachines", { body: vm({ config: { cores: "3" } }) });
    expect(asKey).toMatchObject({ status: 400, body: { errors: { "spec.config.cores": "no" } } });
    expect((await v1.ask("POST", "/virtualmachines", { body: vm({ moon: 1 }) })).status).toBe(400);
  });

  it("are changed key by key, started, stopped and deleted", async () => {
    const conf = "cores: 2\nmeta: creation-qemu=7.2\nname: web\n";
    await put(v1.records, 100, conf);
    // What was judged, so that the node can refuse when it has another one by then.
    const digest = createHash("sha1").update(conf).digest("hex");
    const config = { cores: "4" };
    const replaced = await v1.ask("PUT", "/virtualmachines/100", { body: vm({ config, running: true }) });
    expect(replaced.status, JSON.stringify(replaced.body)).toBe(200);
    expect(calls).toEqual([
      {
        route: "PUT /nodes/{node}/qemu/{vmid}/config",
        params: { vmid: 100, cores: "4", delete: "name", digest },
      },
      { route: "POST /nodes/{node}/qemu/{vmid}/status/start", params: { vmid: 100 } },
    ]);
    const guests = [{ vmid: 100, status: "running", uptimeSeconds: 5, cpu: 0, mem: 0 }];
    v1.views.set("n1", { node: "n1", health: "online", report: { guests } } as unknown as NodeView);
    calls.length = 0;
    const patch = (spec: object, metadata = {}) =>
      v1.ask("PATCH", "/virtualmachines/100", { body: { spec, metadata } });
    const paused = await patch({ running: false });
    expect(paused.status, JSON.stringify(paused.body)).toBe(200);
    expect(calls.map(({ route }) => route)).toEqual(["POST /nodes/{node}/qemu/{vmid}/status/shutdown"]);
    expect((await patch({}, { labels: { tier: "b" } })).body.metadata).toMatchObject({
      labels: { tier: "b" },
    });
    expect(calls).toHaveLength(1);
    expect((await patch({ node: "n2" })).body["detail"]).toContain("is on node 'n1'");
    expect((await patch({ microvm: { kernel: "a:b" } })).body["detail"]).toContain("set when a VM is made");
    expect((await patch({}, { resourceVersion: "1" })).status).toBe(409);
    expect((await v1.ask("PUT", "/virtualmachines/107", { body: vm({}, "107") })).status).toBe(404);
    expect((await v1.ask("DELETE", "/virtualmachines/107")).status).toBe(404);
    expect((await v1.ask("DELETE", "/virtualmachines/100")).status).toBe(200);
    expect(calls.at(-1)).toEqual({
      route: "DELETE /gpve/nodes/{node}/virtual-machines/{vmid}",
      params: { vmid: 100, digest },
    });
    answer = () => {
      throw new AppError("object.conflict", "checksum mismatch (file changed by other user?)", {
        pveStatus: 500,
      });
    };
    expect((await patch({ config: { cores: "8" } })).status).toBe(409);
    expect((await v1.ask("DELETE", "/virtualmachines/100")).status).toBe(409);
  });
});

describe("what a configuration must not say", () => {
  const parameters = ["vmid", "node", "archive", "force", "skiplock", "storage", "unique", "start", "delete"];

  it.each([...parameters, "revert", "digest", "bwlimit", "live-restore", "ha-managed", "background_delay"])(
    "%s is refused wherever it is said",
    async (key) => {
      await put(v1.records, 100, "cores: 2\n");
      await put(v1.records, 200, "cores: 2\n");
      v1.views.set("n1", { node: "n1", health: "online" } as unknown as NodeView);
      const body = vm({ config: { cores: "4", [key]: "200" } });
      const fresh = vm({ config: { cores: "4", [key]: "200" } }, "101");
      const answers = [
        await v1.ask("PATCH", "/virtualmachines/100", { body: { spec: { config: { [key]: "200" } } } }),
        await v1.ask("PUT", "/virtualmachines/100", { body }),
        await v1.ask("POST", "/virtualmachines", { body: fresh }),
        await v1.ask("POST", "/apply", { body: { objects: [body] } }),
        await v1.ask("POST", "/apply", { body: { objects: [fresh] } }),
      ];
      for (const answer of answers) {
        expect(answer.status, JSON.stringify(answer.body)).toBe(400);
        expect(JSON.stringify(answer.body)).toContain(`spec.config.${key}`);
      }
      expect(calls).toEqual([]);
    },
  );
});

it("waiting for a task ends with the request", async () => {
  const stop = new AbortController();
  const waiting = taskEnd(v1.records, UPID, stop.signal);
  stop.abort(new AppError("operation.cancelled", "gone"));
  await expect(waiting).rejects.toThrow("gone");
  await expect(taskEnd(v1.records, "nonsense", stop.signal)).rejects.toThrow("is no task");
});
