import { PassThrough } from "node:stream";
import type { ServerResponse } from "node:http";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { AppError } from "@gpve/contracts/errors.ts";
import type { PveMethod } from "@gpve/contracts/pve/schema.ts";
import { problemOf } from "@gpve/contracts/v1/problem.ts";
import type { AuditFilters, AuditRecord } from "@gpve/domain/audit/audit-log.ts";
import type { NodeFacts, NodeReport, NodeView } from "@gpve/domain/node/runtime.ts";
import { nodeRecords } from "../../application/node/collections.ts";
import { managerCollection, MANAGER_STATUS_ID } from "@gpve/domain/ha/collections.ts";
import { emptyManagerStatus } from "@gpve/domain/ha/model.ts";
import { taskRecords } from "@gpve/domain/task/task-record.ts";
import { eventCollection } from "../../application/v1/events.ts";
import type { WatchItem } from "../../application/v1/watch-objects.ts";
import { sendEvents } from "./send-events.ts";
import { startV1 } from "./testing/v1-server.ts";
import type { V1TestServer } from "./testing/v1-server.ts";
import { joinedNode } from "../../testing/joined-node.ts";

let v1: V1TestServer;
const cancelled: string[] = [];
const filters: AuditFilters[] = [];
beforeEach(async () => {
  cancelled.length = 0;
  filters.length = 0;
  const method = { path: "/nodes", method: "GET" } as PveMethod;
  v1 = await startV1({
    deps: {
      cancelTask: ({ upid }) => {
        cancelled.push(upid);
        return Promise.resolve();
      },
      taskLog: (_task, { start, limit }) =>
        Promise.resolve(start > 5 ? undefined : { lines: [{ n: start + 1, t: `limit ${limit}` }], total: 9 }),
      auditLog: {
        list: async function* (wanted) {
          filters.push(wanted);
          yield { seq: 1, user: "root@pam" } as AuditRecord;
        },
        verify: () =>
          Promise.resolve({ ok: false, entries: 1, head: { seq: 1, hash: "x" }, issues: [], recoveries: [] }),
      },
      pve: {
        methods: [method, { ...method, path: "/access" }],
        implemented: ({ path }) => path === "/nodes",
      },
    },
  });
});
afterEach(() => v1.close());

const upid = (user: string, type = "qmstart") => `UPID:n1:00000001:00000001:65000000:${type}:100:${user}:`;

async function addTask(id: string, end?: { endtime: number; exitstatus: string }): Promise<void> {
  await v1.records.transact((tx) => tx.put(taskRecords, `n1/${id}`, { upid: id, ...end }));
}

describe("tasks", () => {
  it("are seen by who started them and by auditors of the node", async () => {
    await v1.addUser("joe@pve");
    await v1.addUser("audit@pve", { grants: [["/nodes/n1", "PVEAuditor"]] });
    await addTask(upid("joe@pve"));
    await addTask(upid("joe@pve!ci"), { endtime: 0x65000002, exitstatus: "OK" });
    await addTask(upid("eve@pve"), { endtime: 0x65000002, exitstatus: "boom" });
    await addTask(upid("eve@pve", "vzdump"), { endtime: 0x65000002, exitstatus: "WARNINGS: 1" });
    await addTask(upid("eve@pve", "qmstop"), { endtime: 0x65000002, exitstatus: "received interrupt" });
    const phases = async (as: string) =>
      (await v1.ask("GET", "/tasks", { as })).body.items.map(
        (task) => (task as unknown as { status: { phase: string } }).status.phase,
      );
    expect((await phases("joe@pve")).toSorted()).toEqual(["running", "succeeded"]);
    expect((await phases("audit@pve")).toSorted()).toEqual([
      "cancelled",
      "failed",
      "running",
      "succeeded",
      "warnings",
    ]);
    expect(await phases("joe@pve!ci")).toEqual(["succeeded"]);
    const failed = await v1.ask("GET", "/tasks?fieldSelector=status.phase%3Dfailed");
    expect(failed.body.items).toMatchObject([
      { metadata: { name: upid("eve@pve") }, status: { exitStatus: "boom" } },
    ]);
  });

  it("are cancelled and their logs read with the same rights as under /api2", async () => {
    await v1.addUser("joe@pve");
    await v1.addUser("audit@pve", { grants: [["/nodes/n1", "PVEAuditor"]] });
    const id = upid("joe@pve");
    await addTask(id);
    const path = `/tasks/${encodeURIComponent(id)}`;
    expect((await v1.ask("GET", path, { as: "joe@pve" })).body).toMatchObject({
      spec: { node: "n1", type: "qmstart", id: "100" },
    });
    expect((await v1.ask("GET", `${path}/log?start=2&limit=7`, { as: "audit@pve" })).body).toEqual({
      lines: [{ n: 3, t: "limit 7" }],
      total: 9,
    });
    expect((await v1.ask("GET", `${path}/log?start=6`)).body).toEqual({ lines: [], total: 0 });
    expect((await v1.ask("POST", `${path}/cancel`, { as: "audit@pve" })).status).toBe(403);
    expect((await v1.ask("POST", `${path}/cancel`, { as: "joe@pve" })).body).toEqual({ task: id });
    expect(cancelled).toEqual([id]);
    expect((await v1.ask("POST", `/tasks/${encodeURIComponent(upid("nobody@pve"))}/cancel`)).status).toBe(
      404,
    );
    expect((await v1.ask("GET", "/tasks/rubbish")).status).toBe(404);
    expect((await v1.ask("POST", "/tasks")).status).toBe(405);
  });
});

describe("events", () => {
  it("are objects like all others, for auditors", async () => {
    const id = "01ARZ3NDEKTSV4RRFFQ69G5FAV";
    const event = {
      type: "Warning",
      reason: "NodeOffline",
      object: { kind: "Node", name: "n1" },
      message: "gone",
      node: "n1",
      count: 2,
      firstAt: 1_000,
      lastAt: 2_000,
    } as const;
    await v1.records.transact((tx) => tx.put(eventCollection, id, event));
    await v1.addUser("joe@pve");
    await v1.addUser("audit@pve", { grants: [["/nodes/n1", "PVEAuditor"]] });
    expect((await v1.ask("GET", "/events", { as: "joe@pve" })).body.items).toEqual([]);
    expect((await v1.ask("GET", `/events/${id}`, { as: "audit@pve" })).body).toMatchObject({
      spec: { reason: "NodeOffline", object: { kind: "Node", name: "n1" } },
      status: { count: 2, lastAt: "1970-01-01T00:00:02.000Z" },
    });
  });
});

describe("nodes", () => {
  it("say whether new guests are placed there", async () => {
    await v1.records.transact((tx) => {
      for (const name of ["n1", "n2", "n3"])
        tx.put(nodeRecords, name, {
          ...joinedNode(name),
          ...(name === "n2" ? { unschedulable: true as const } : {}),
        });
    });
    const items = async (query: string): Promise<unknown> =>
      (await v1.ask("GET", `/nodes${query}`)).body.items;
    const open = { status: { scheduling: "open" } };
    const cordoned = { status: { scheduling: "cordoned" } };
    expect(await items("")).toMatchObject([open, cordoned, open]);
    const status = { ...emptyManagerStatus(), maintenance: { n3: true as const } };
    await v1.records.transact((tx) => tx.put(managerCollection, MANAGER_STATUS_ID, status));
    expect(await items("")).toMatchObject([open, cordoned, { status: { scheduling: "maintenance" } }]);
    expect(await items("?fieldSelector=status.scheduling%3Dmaintenance")).toMatchObject([
      { metadata: { name: "n3" } },
    ]);
  });

  it("show what they found out about themselves", async () => {
    const record = joinedNode("n1");
    await v1.records.transact((tx) => tx.put(nodeRecords, "n1", record));
    const facts = {
      accelerator: "tcg",
      kernel: { release: "6.1" },
      osImage: "Debian",
      cpu: { model: "x", sockets: 1, cores: 2, cpus: 4 },
      cgroupVersion: 2,
      bridges: ["vmbr0"],
      gpus: [{ uuid: "u", model: "m", memoryBytes: 1, driver: "d" }],
      devices: [{ kind: "example.com/gpu", count: 2 }],
      capabilities: [{ name: "kvm", available: false, detail: "no /dev/kvm", fix: "enable it" }],
      qemu: { version: "7.2", binary: "/q", machines: [] },
    } as unknown as NodeFacts;
    const space = { total: 4, used: 1, free: 3, available: 3, avail: 3 };
    const report = {
      at: 5,
      guests: [],
      storages: [],
      agentVersion: "1.0",
      usage: {
        cpu: 0.5,
        wait: 0,
        loadavg: [1, 2, 3],
        memory: space,
        swap: space,
        rootfs: space,
        uptimeSeconds: 7,
        netIn: 0,
        netOut: 0,
      },
    } as unknown as NodeReport;
    const view: NodeView = {
      nodeid: 1,
      node: "n1",
      health: "online",
      address: "10.0.0.1",
      lastSeen: 5,
      certFingerprint: "AA",
      report,
      facts,
    };
    v1.views.set("n1", view);
    expect((await v1.ask("GET", "/nodes/n1")).body).toMatchObject({
      status: {
        health: "online",
        accelerator: "tcg",
        cpu: { cpus: 4 },
        qemuVersion: "7.2",
        devices: [{ kind: "example.com/gpu", count: 2 }],
        usage: { cpu: 0.5, uptimeSeconds: 7 },
      },
    });
    expect((await v1.ask("GET", "/nodes/n1/capabilities")).body).toEqual({
      node: "n1",
      capabilities: facts.capabilities,
    });
    expect((await v1.ask("GET", "/nodes?fieldSelector=status.health%3Doffline")).body.items).toEqual([]);
    expect((await v1.ask("POST", "/nodes")).status).toBe(405);
    expect((await v1.ask("DELETE", "/nodes/n1")).status).toBe(200);
    expect((await v1.ask("GET", "/nodes/n1")).status).toBe(404);
  });
});

describe("the audit log and coverage", () => {
  it("are asked with filters that are checked", async () => {
    const asked =
      "limit=5&before=9&user=joe%40pve&verb=delete&resource=/pools&status=4xx&since=2026-01-01T00:00:00Z&until=2026-02-01T00:00:00Z";
    expect((await v1.ask("GET", `/audit?${asked}`)).body).toEqual({
      entries: [{ seq: 1, user: "root@pam" }],
    });
    expect(filters[0]).toEqual({
      newestFirst: true,
      limit: 5,
      before: 9,
      user: "joe@pve",
      verb: "delete",
      resource: "/pools",
      status: "4xx",
      since: Date.UTC(2026, 0, 1),
      until: Date.UTC(2026, 1, 1),
    });
    expect((await v1.ask("GET", "/audit?before=x")).status).toBe(400);
    expect((await v1.ask("GET", "/audit?since=yesterday")).status).toBe(400);
    expect((await v1.ask("GET", "/audit/verify")).body).toMatchObject({ ok: false });
  });

  it("count methods per area", async () => {
    expect((await v1.ask("GET", "/coverage")).body).toMatchObject({
      implemented: 1,
      known: 2,
      areas: [
        { area: "access", implemented: 0, known: 1 },
        { area: "nodes", implemented: 1, known: 1 },
      ],
    });
  });
});

describe("a stream of events", () => {
  const object = { metadata: { name: "x".repeat(100_000) } } as unknown as Extract<
    WatchItem,
    { type: "ADDED" }
  >["object"];

  it("waits for a client that reads slowly, and lets go of one that is gone", async () => {
    let made = 0;
    let ended = false;
    async function* endless(): AsyncGenerator<WatchItem> {
      try {
        for (;;) {
          made++;
          yield { type: "ADDED", object, id: "1" };
        }
      } finally {
        ended = true;
      }
    }
    const pipe = new PassThrough({ highWaterMark: 1_000_000 });
    const res = Object.assign(pipe, { writeHead: () => undefined, flushHeaders: () => undefined });
    const done = sendEvents(res as unknown as ServerResponse, endless(), {}, (err) => problemOf(err));
    await new Promise((resolve) => setTimeout(resolve, 50));
    expect(made).toBeLessThan(30);
    pipe.destroy();
    await done;
    expect(ended).toBe(true);
  });

  it("throws what fails before the first event", async () => {
    // oxlint-disable-next-line require-yield -- the failure comes before the first event
    async function* broken(): AsyncGenerator<WatchItem> {
      await Promise.reject(new AppError("store.compacted", "gone"));
    }
    await expect(sendEvents({} as ServerResponse, broken(), {}, (err) => problemOf(err))).rejects.toThrow(
      "gone",
    );
  });
});
