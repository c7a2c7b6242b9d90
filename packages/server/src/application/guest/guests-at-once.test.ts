import { afterEach, beforeEach, expect, test } from "vitest";
import { AppError } from "@gpve/contracts/errors.ts";
import { guestCollection, guestRecord } from "@gpve/domain/guest/guest-record.ts";
import type { NodeBoard, NodeView } from "@gpve/domain/node/runtime.ts";
import type { AccessView, RequestContext } from "@gpve/domain/request/context.ts";
import { taskRecordId, taskRecords } from "@gpve/domain/task/task-record.ts";
import { formatUpid } from "@gpve/domain/task/upid.ts";
import { MemoryJournal } from "@gpve/kit/testing/memory-journal.ts";
import { testEngine } from "@gpve/kit/testing/operation-engine.ts";
import { createGuestsAtOnceHandlers } from "../../presentation/http/guest/guests-at-once-handlers.ts";
import { MemoryRecords } from "../../testing/memory-records.ts";
import type { NodeCalls } from "../node/call-agent.ts";
import { atOnceOperations } from "./guests-at-once.ts";

let records: MemoryRecords;
let asked: { node: string; route: string; params: Record<string, unknown>; who: string | undefined }[];
let running: Set<number>;
/** How many of the tasks that were begun have not ended. */
let open: string[];
let most: number;
let holds: boolean;
let may: (path: string, privilege: string) => boolean;
let ask: (route: string, params: object) => Promise<string>;
let state: (upid: string) => string | undefined;
let close: () => Promise<void>;
let restart: () => Promise<void>;

const MIGRATE_ALL = "POST /nodes/{node}/migrateall";
const BULK = "POST /cluster/bulk-action/guest";

const endTask = (upid: string, exitstatus = "OK") =>
  records.transact((tx) => tx.put(taskRecords, taskRecordId(upid) ?? "", { upid, endtime: 2, exitstatus }));

beforeEach(async () => {
  records = new MemoryRecords();
  [asked, open, most, holds] = [[], [], 0, false];
  running = new Set([100, 101]);
  may = () => true;
  const board = {
    get: (node: string): NodeView | undefined =>
      ["n1", "n2", "n3"].includes(node)
        ? ({
            node,
            health: "online",
            report: { guests: [...running].map((vmid) => ({ vmid, status: "running" })) },
          } as unknown as NodeView)
        : undefined,
  } as NodeBoard;
  const guest = (vmid: number, node: string, conf = "") => guestRecord({ vmid, type: "qemu", node, conf });
  await records.transact((tx) => {
    for (const each of [
      guest(100, "n1", "startup: order=2\n"),
      guest(101, "n1", "startup: order=1\n"),
      guest(102, "n1"),
      guest(103, "n2"),
      guest(104, "n2", "template: 1\n"),
    ])
      tx.put(guestCollection, String(each.vmid), each);
  });
  const calls = {
    call: async (
      node: string,
      route: string,
      params: Record<string, unknown>,
      ctx: { actor?: { authid: string } },
    ) => {
      asked.push({ node, route, params, who: ctx.actor?.authid });
      if (params["vmid"] === 102 && params["online"] === undefined && route.endsWith("/migrate"))
        throw new AppError("object.conflict", "VM is locked (backup)\n");
      const upid = formatUpid({
        node,
        pid: asked.length,
        pstart: 1,
        starttime: 1,
        type: "task",
        id: String(params["vmid"]),
        user: "joe@pve",
      });
      open.push(upid);
      most = Math.max(most, open.length);
      if (!holds) setImmediate(() => void endTask(upid).then(() => open.splice(open.indexOf(upid), 1)));
      return { data: upid };
    },
  } as unknown as Pick<NodeCalls, "call">;
  const journal = new MemoryJournal();
  let { engine } = testEngine({ journal, concurrency: 1 });
  const access = {
    has: () => true,
    require: (path: string, [privilege = ""]: readonly string[]) => {
      if (!may(path, privilege)) throw new AppError("access.denied", `${path}, ${privilege}`);
    },
  } as unknown as AccessView;
  const begin = async (): Promise<void> => {
    for (const operation of atOnceOperations({
      records,
      board,
      calls,
      accessOf: () => access,
      newRequestId: () => "r",
    }))
      engine.register(operation);
    await engine.start();
  };
  await begin();
  const handlers = createGuestsAtOnceHandlers({
    engine: { submit: (request) => engine.submit(request) },
    knowsNode: (node) => board.get(node) !== undefined,
    maxWorkers: () => undefined,
  });
  ask = async (route, params) => {
    const ctx = { actor: { userid: "joe@pve", authid: "joe@pve" }, access } as unknown as RequestContext;
    const handler = handlers[route as typeof MIGRATE_ALL];
    return (await handler?.(params as never, ctx)) as string;
  };
  state = (upid) => engine.get(upid)?.exitStatus;
  close = () => engine.stop(0);
  restart = async () => {
    await engine.stop(0);
    ({ engine } = testEngine({ journal, concurrency: 1 }));
    await begin();
  };
});
afterEach(() => close());

const vms = (): unknown[] => asked.map(({ params }) => params["vmid"]);

test("all VMs of a node are moved, those that run as they run, as whoever asked", async () => {
  const upid = await ask(MIGRATE_ALL, {
    node: "n1",
    target: "n2",
    "max-workers": 1,
    "with-local-disks": true,
  });
  await expect.poll(() => state(upid)).toBe("WARNINGS: 1");
  expect(upid).toContain(":migrateall:");
  expect(asked[0]).toEqual({
    node: "n1",
    route: "POST /nodes/{node}/qemu/{vmid}/migrate",
    params: { vmid: 100, target: "n2", "with-local-disks": true, online: true },
    who: "joe@pve",
  });
  expect(vms()).toEqual([100, 101, 102]);
  expect(most).toBe(1);
});

test("no more are on their way than there are workers", async () => {
  holds = true;
  const upid = await ask(MIGRATE_ALL, { node: "n1", target: "n3", maxworkers: 2, vms: "100,101,103" });
  await expect.poll(() => open.length).toBe(2);
  for (const task of open) await endTask(task, "VM quit");
  // 103 is on another node; two failed.
  await expect.poll(() => state(upid)).toBe("WARNINGS: 3");
  expect(vms()).toEqual([100, 101]);
});

test("a move of all is refused before a task where it cannot be meant so", async () => {
  const all = { node: "n1", target: "n2", "max-workers": 1 };
  await expect(ask(MIGRATE_ALL, { ...all, target: "n1" })).rejects.toMatchObject({
    errors: { target: "target is local node." },
  });
  await expect(ask(MIGRATE_ALL, { ...all, target: "n9" })).rejects.toThrow("no such cluster node 'n9'");
  await expect(ask(MIGRATE_ALL, { node: "n1", target: "n2" })).rejects.toThrow(
    "max_workers in datacenter.cfg",
  );
  may = (path, privilege) => path === "/vms/100" && privilege === "VM.Migrate";
  await expect(ask(MIGRATE_ALL, all)).rejects.toThrow("/, VM.Migrate");
  await expect(ask(MIGRATE_ALL, { ...all, vms: "100,101" })).rejects.toThrow("/vms/101, VM.Migrate");
  await expect(ask(MIGRATE_ALL, { ...all, vms: "100" })).resolves.toContain("migrateall");
  await expect(ask(`${BULK}/start`, { vms: [100] })).rejects.toThrow("VM.PowerMgmt");
});

test("a cluster's VMs are moved, started, shut down and suspended where they are", async () => {
  const done = async (what: string, params: object): Promise<void> => {
    asked.length = 0;
    const upid = await ask(`${BULK}/${what}`, params);
    await expect.poll(() => state(upid)).toMatch(/OK|WARNINGS/);
    expect(upid).toContain(`:bulk${what}:`);
  };
  await done("migrate", { target: "n2", online: true });
  expect(vms()).toEqual([100, 101, 102]);
  await done("start", { "max-workers": 1 });
  expect(asked.map(({ node, route, params }) => [node, route.slice(-5), params])).toEqual([
    ["n1", "start", { vmid: 102 }],
    ["n2", "start", { vmid: 103 }],
  ]);
  await done("shutdown", { "max-workers": 1 });
  expect(asked.map(({ params }) => params)).toEqual([
    { vmid: 100, timeout: 180, forceStop: true },
    { vmid: 101, timeout: 180, forceStop: true },
  ]);
  await done("suspend", { vms: [101, 103, 104, 999], "to-disk": true, statestorage: "local" });
  expect(asked.map(({ params }) => params)).toEqual([{ vmid: 101, todisk: true, statestorage: "local" }]);
  running.clear();
  await done("shutdown", {});
  expect(asked).toEqual([]);
});

test("after a restart what was begun is waited for, and not begun again", async () => {
  holds = true;
  const upid = await ask(MIGRATE_ALL, { node: "n1", target: "n3", "max-workers": 2, vms: "100,101" });
  await expect.poll(() => open.length).toBe(2);
  await restart();
  for (const task of open) await endTask(task);
  await expect.poll(() => state(upid)).toBe("OK");
  expect(vms()).toEqual([100, 101]);
});

test("one that waits keeps nothing else that servers do from its turn", async () => {
  holds = true;
  await ask(MIGRATE_ALL, { node: "n1", target: "n3", "max-workers": 1, vms: "100" });
  await ask(`${BULK}/shutdown`, { vms: [101] });
  await expect.poll(() => open.length).toBe(2);
});
