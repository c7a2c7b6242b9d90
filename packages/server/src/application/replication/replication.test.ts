// Jobs, their runs and failover, on records in memory and agents that are made up.
import { createHash } from "node:crypto";
import { isAppError } from "@gpve/contracts/errors.ts";
import { resourceCollection } from "@gpve/domain/ha/collections.ts";
import { guestCollection, guestRecord } from "@gpve/domain/guest/guest-record.ts";
import { moveCollection } from "@gpve/domain/guest/guest-move.ts";
import type { NodeBoard, NodeHealth } from "@gpve/domain/node/runtime.ts";
import { replicationCollection } from "@gpve/domain/replication/replication-job.ts";
import { replicationStateCollection } from "@gpve/domain/replication/replication-state.ts";
import type { RequestContext } from "@gpve/domain/request/context.ts";
import { taskRecordId, taskRecords } from "@gpve/domain/task/task-record.ts";
import { parseVmConfig } from "@gpve/domain/vm/config/parse-config.ts";
import { silentLogger } from "@gpve/kit/logger.ts";
import { FakeClock } from "@gpve/kit/testing/fake-clock.ts";
import { beforeEach, expect, test } from "vitest";
import { createReplicationHandlers } from "../../presentation/http/cluster/replication-handlers.ts";
import { MemoryRecords } from "../../testing/memory-records.ts";
import type { NodeCalls } from "../node/call-agent.ts";
import { nodeRecords } from "../node/collections.ts";
import { GuestMoves, noteMove } from "../node/guest-moves.ts";
import { Failover } from "./failover.ts";
import { removeGuestFromReplication, ReplicationJobs } from "./replication-jobs.ts";
import { DueReplications } from "./due-replications.ts";
import { joinedNode } from "../../testing/joined-node.ts";

const CONF = "name: web\nscsi0: local:100/vm-100-disk-0.qcow2,size=1G\n";
const UPID = "UPID:n1:0000000A:00000001:00000001:replicate:100:root@pam:";

let records: MemoryRecords;
let clock: FakeClock;
let health: Record<string, NodeHealth>;
let jobs: ReplicationJobs;
let due: DueReplications;
let failover: Failover;
let handlers: ReturnType<typeof createReplicationHandlers>;
let asked: { node: string; route: string; params: Record<string, unknown> }[];
let refusal: Error | undefined;
let rights: readonly string[] | undefined;

const ctx = {
  actor: { userid: "joe@pve", authid: "joe@pve" },
  requestId: "r",
  clientAddress: "",
  signal: new AbortController().signal,
  access: {
    has: (path: string, needed: readonly string[]) =>
      rights === undefined || needed.every((each) => rights?.includes(`${path} ${each}`) === true),
    require: (path: string, needed: readonly string[]) => {
      if (!ctx.access.has(path, needed)) throw new Error(`no ${needed.join()} on ${path}`);
    },
  },
} as unknown as RequestContext;

beforeEach(async () => {
  records = new MemoryRecords();
  clock = new FakeClock();
  health = { n1: "online", n2: "online", n3: "online" };
  asked = [];
  refusal = undefined;
  rights = undefined;
  await records.transact((tx) => {
    for (const [nodeid, name] of Object.keys(health).entries())
      tx.put(
        nodeRecords,
        name,
        joinedNode(name, { nodeid, address: `10.0.0.${nodeid}`, certFingerprint: `AA:${name}` }),
      );
    tx.put(guestCollection, "100", guestRecord({ vmid: 100, type: "qemu", node: "n1", conf: CONF }));
    tx.put(guestCollection, "101", guestRecord({ vmid: 101, type: "qemu", node: "n1", conf: "name: b\n" }));
    tx.put(
      guestCollection,
      "102",
      guestRecord({ vmid: 102, type: "lxc", node: "n1", conf: "hostname: c\n" }),
    );
  });
  const board = {
    get: (node: string) => (health[node] === undefined ? undefined : { node, health: health[node] }),
  } as unknown as NodeBoard;
  const calls = {
    call: async (node: string, route: string, params: Record<string, unknown>) => {
      asked.push({ node, route, params });
      if (refusal !== undefined) throw refusal;
      if (route.endsWith("/replicate")) return { data: UPID };
      if (route.endsWith("/log")) return { data: [{ n: 1, t: "sent" }] };
      if (route.endsWith("/recover")) return { data: recovered() };
      return { data: route.endsWith("/start") ? "UPID:start" : null };
    },
  } as unknown as NodeCalls;
  const storages = () => [
    { storage: "local", type: "dir", options: { path: "/x", content: "images" } },
    { storage: "here", type: "dir", options: { path: "/y", content: "images", nodes: "n1" } },
  ];
  const digestOf = (text: string): string => createHash("sha1").update(text).digest("hex");
  const config = ({ vmid, conf }: { vmid: number; conf: string }) => parseVmConfig(conf, { vmid, digestOf });
  const zone = () => () => 0;
  const knowsNode = (node: string): boolean => health[node] !== undefined;
  jobs = new ReplicationJobs({ records, clock, zone, knowsNode, storages, config });
  let id = 0;
  const newRequestId = () => `r${++id}`;
  const log = silentLogger;
  due = new DueReplications({ records, jobs, board, calls, clock, zone, newRequestId, log });
  failover = new Failover({ records, board, calls, clock, log, storages, config });
  handlers = createReplicationHandlers({
    jobs,
    taskLog: async ({ node, upid }) => ({
      ...(await calls.call(node, "GET /nodes/{node}/tasks/{upid}/log", { upid }, ctx)),
      total: 70,
    }),
  });
});

const recovered = () => ({
  job: "100-0",
  at: Math.floor(clock.now() / 1000) - 90,
  from: "n1",
  volumes: [
    {
      key: "scsi0",
      source: "local:100/vm-100-disk-0.qcow2",
      volid: "local:100/vm-100-disk-0.qcow2",
      bytes: 1,
    },
  ],
});
const ask = async (route: keyof typeof handlers, params: object): Promise<unknown> =>
  (handlers[route] as (params: object, ctx: RequestContext) => unknown)(params, ctx);
const create = (more: object = {}) =>
  ask("POST /cluster/replication", { id: "100-0", type: "local", target: "n2", ...more });
const refusedBy = (work: Promise<unknown>): Promise<string> =>
  work.then(
    () => "done",
    (err: unknown) =>
      isAppError(err) && err.errors ? JSON.stringify(err.errors) : String((err as Error).message),
  );
const look = () => due.look(ctx.signal);
const state = () => records.collection(replicationStateCollection).get("100-0")?.value;
const job = () => records.collection(replicationCollection).get("100-0")?.value;
const endTask = (exitstatus = "OK"): Promise<void> =>
  records.transact((tx) => {
    const endtime = Math.floor(clock.now() / 1000) + 3;
    tx.put(taskRecords, taskRecordId(UPID) ?? "", { upid: UPID, endtime, exitstatus });
  });
/** A copy is at the target. */
const synced = async (): Promise<void> => {
  await create();
  await ask("POST /nodes/{node}/replication/{id}/schedule_now", { node: "n1", id: "100-0" });
  await look();
  await endTask();
  await look();
  expect(state()).toMatchObject({ failCount: 0, replicas: { n2: expect.any(Number) } });
};

test("a job is made, shown, changed and removed, by those who may", async () => {
  expect(await create({ comment: "c", source: "n1" })).toBeNull();
  const shown = {
    id: "100-0",
    guest: 100,
    jobnum: 0,
    source: "n1",
    target: "n2",
    type: "local",
    comment: "c",
  };
  expect(await ask("GET /cluster/replication", {})).toEqual([shown]);
  expect(
    await ask("PUT /cluster/replication/{id}", { id: "100-0", rate: 5, delete: "comment", source: "n1" }),
  ).toBeNull();
  const { comment: _gone, ...rest } = shown;
  const read = (await ask("GET /cluster/replication/{id}", { id: "100-0" })) as Record<string, unknown>;
  expect(read).toEqual({ ...rest, rate: 5, digest: expect.any(String) as string });
  const change = { id: "100-0", digest: read["digest"], disable: true };
  expect(await ask("PUT /cluster/replication/{id}", change)).toBeNull();
  expect(await refusedBy(ask("PUT /cluster/replication/{id}", change))).toContain(
    "detected modified configuration",
  );
  expect(await ask("PUT /cluster/replication/{id}", { id: "100-0", delete: "disable" })).toBeNull();
  expect(await ask("GET /nodes/{node}/replication", { node: "n1", guest: 100 })).toMatchObject([
    { id: "100-0", vmtype: "qemu", fail_count: 0, last_sync: 0, schedule: "*/15" },
  ]);
  expect(await ask("GET /nodes/{node}/replication", { node: "n1", guest: 101 })).toEqual([]);
  expect(await ask("GET /nodes/{node}/replication/{id}/log", { node: "n1", id: "100-0" })).toEqual([]);
  rights = [];
  expect(await ask("GET /cluster/replication", {})).toEqual([]);
  expect(await ask("GET /nodes/{node}/replication", { node: "n1" })).toEqual([]);
  for (const route of ["GET /cluster/replication/{id}", "GET /nodes/{node}/replication/{id}/status"] as const)
    expect(await refusedBy(ask(route, { id: "100-0", node: "n1" }))).toContain("no VM.Audit");
  expect(
    await refusedBy(ask("GET /nodes/{node}/replication/{id}/log", { id: "100-0", node: "n1" })),
  ).toContain("no VM.Audit");
  for (const route of ["PUT /cluster/replication/{id}", "DELETE /cluster/replication/{id}"] as const)
    expect(await refusedBy(ask(route, { id: "100-0" }))).toContain("no VM.Replicate");
  expect(await refusedBy(create())).toContain("no VM.Replicate");
  rights = undefined;
  expect(await ask("DELETE /cluster/replication/{id}", { id: "100-0", force: true })).toBeNull();
  expect(job()).toBeUndefined();
  expect(await refusedBy(ask("DELETE /cluster/replication/{id}", { id: "100-0" }))).toBe(
    "no such job '100-0'",
  );
  expect(await refusedBy(ask("GET /cluster/replication/{id}", { id: "100-0" }))).toContain(
    "no such replication job",
  );
});

test("what cannot be replicated is refused with its reason", async () => {
  expect(await refusedBy(create({ id: "999-0" }))).toBe("Guest '999' does not exist.");
  expect(await refusedBy(create({ id: "101-0" }))).toBe("No replicatable volumes found");
  expect(await refusedBy(create({ id: "102-0" }))).toContain("only VMs can be replicated");
  expect(await refusedBy(create({ target: "n1" }))).toBe("Source and target must not be identical");
  expect(await refusedBy(create({ target: "nx" }))).toBe("Target 'nx' does not exist.");
  expect(await refusedBy(create({ source: "n3" }))).toContain(
    "does not match current node of guest '100' (n1)",
  );
  await records.transact((tx) => {
    const conf = "scsi0: here:100/vm-100-disk-0.qcow2\n";
    tx.put(guestCollection, "100", guestRecord({ vmid: 100, type: "qemu", node: "n1", conf }));
  });
  expect(await refusedBy(create())).toContain(
    "storage 'here' of volume 'here:100/vm-100-disk-0.qcow2' is not available on node 'n2'",
  );
  await records.transact((tx) => {
    tx.put(guestCollection, "100", guestRecord({ vmid: 100, type: "qemu", node: "n1", conf: CONF }));
  });
  await create();
  expect(await refusedBy(create())).toContain("already exists");
  expect(await refusedBy(create({ id: "100-1" }))).toBe(
    "replication job for guest '100' to target 'local/n2' already exists",
  );
  expect(
    await refusedBy(ask("DELETE /cluster/replication/{id}", { id: "100-0", keep: true, force: true })),
  ).toContain("conflicts");
  expect(
    await refusedBy(ask("GET /nodes/{node}/replication/{id}/status", { node: "n2", id: "100-0" })),
  ).toContain("on node 'n2'");
});

test("a due job runs once with a ticket that moves nothing, and its end is written down", async () => {
  await create({ rate: 2 });
  await look();
  expect(asked).toEqual([]);
  await clock.advance(15 * 60_000);
  await look();
  await look();
  expect(asked).toMatchObject([
    { node: "n1", params: { vmid: 100, job: "100-0", target: "n2", moveId: "r1", rate: 2 } },
  ]);
  const [ticket] = records.collection(moveCollection).list();
  expect(ticket?.value).toMatchObject({ purpose: "replica", from: { node: "n1" }, to: { node: "n2" } });
  const moves = new GuestMoves({ records, clock });
  await expect(moves.handOver("n1", { vmid: 100, moveId: "r1" })).rejects.toThrow("only copied");
  expect(await ask("GET /nodes/{node}/replication/{id}/log", { node: "n1", id: "100-0" })).toMatchObject({
    data: [{ n: 1, t: "sent" }],
    total: 70,
  });
  await endTask();
  await look();
  expect(state()).toMatchObject({ failCount: 0, duration: 3, last: { upid: UPID, node: "n1" } });
  expect(await ask("GET /nodes/{node}/replication/{id}/log", { node: "n1", id: "100-0" })).toMatchObject({
    data: [{ n: 1, t: "sent" }],
    total: 70,
  });
});

test("what fails is counted: a task, a call, a node that is away", async () => {
  await create();
  const now = () => ask("POST /nodes/{node}/replication/{id}/schedule_now", { node: "n1", id: "100-0" });
  await now();
  await look();
  await endTask("no space left");
  await look();
  expect(state()).toMatchObject({ failCount: 1, error: "no space left" });
  refusal = new Error("cannot reach it");
  await now();
  await look();
  expect(state()).toMatchObject({ failCount: 2, error: "cannot reach it" });
  health["n2"] = "offline";
  await now();
  await look();
  expect(state()).toMatchObject({ failCount: 3, error: "node 'n2' is not online" });
  Object.assign(health, { n2: "online" });
  refusal = undefined;
  await records.transact((tx) => tx.delete(taskRecords, taskRecordId(UPID) ?? ""));
  await now();
  await look();
  health["n1"] = "offline";
  await look();
  expect(state()).toMatchObject({ failCount: 4, error: "node 'n1' went away meanwhile" });
  Object.assign(health, { n1: "online" });
  await now();
  await look();
  await clock.advance(61_000);
  await look();
  expect(state()).toMatchObject({ failCount: 5, error: expect.stringContaining("nobody knows") });
});

test("a job goes with its copy, or leaves it, and is tried again while the target is away", async () => {
  await synced();
  refusal = new Error("away");
  expect(await ask("DELETE /cluster/replication/{id}", { id: "100-0" })).toBeNull();
  await look();
  expect(state()).toMatchObject({ failCount: 1, error: expect.stringContaining("cannot be removed: away") });
  refusal = undefined;
  await clock.advance(301_000);
  await look();
  expect(asked.at(-1)).toMatchObject({ node: "n2", params: { vmid: 100, keep: false } });
  expect([job(), state()]).toEqual([undefined, undefined]);
  await synced();
  await ask("DELETE /cluster/replication/{id}", { id: "100-0", keep: true });
  await look();
  expect(asked.at(-1)).toMatchObject({ params: { keep: true } });
  await create();
  await records.transact((tx) => removeGuestFromReplication(tx, 100));
  expect(job()?.remove_job).toBe("full");
});

test("runs by itself until it is told to stop", async () => {
  await create();
  const stop = new AbortController();
  const running = due.run(stop.signal);
  await clock.advance(16 * 60_000);
  expect(asked).toHaveLength(1);
  stop.abort(new Error("done"));
  await running;
});

test("a VM goes on from its copy only when its node is gone, and is told how old it is", async () => {
  expect(await refusedBy(failover.run(1, {}, ctx))).toContain("there is no guest 1");
  await synced();
  expect(await refusedBy(failover.run(100, { nodeIsOff: true }, ctx))).toContain(
    "'n1' is online and has VM 100",
  );
  health["n1"] = "offline";
  expect(await refusedBy(failover.run(100, {}, ctx))).toContain("make sure that the node is off");
  expect(await refusedBy(failover.run(100, { nodeIsOff: true, target: "n3" }, ctx))).toContain(
    "no node 'n3' has a whole copy",
  );
  await records.transact((tx) => tx.put(resourceCollection, "vm:100", { sid: "vm:100" } as never));
  expect(await refusedBy(failover.run(100, { nodeIsOff: true }, ctx))).toContain("is under HA");
  await records.transact((tx) => tx.delete(resourceCollection, "vm:100"));
  health["n2"] = "offline";
  expect(await refusedBy(failover.run(100, { nodeIsOff: true }, ctx))).toContain("is online: n2");
  health["n2"] = "online";
  const result = await failover.run(100, { nodeIsOff: true, start: true }, ctx);
  expect(result).toMatchObject({
    from: "n1",
    to: "n2",
    ageSeconds: 90,
    age: "1 min 30 s",
    left: [],
    task: "UPID:start",
  });
  expect(records.collection(guestCollection).get("100")?.value).toMatchObject({
    node: "n2",
    fence: 1,
    conf: CONF,
  });
  expect(job()).toMatchObject({ target: "n1", replaces: ["local:100/vm-100-disk-0.qcow2"] });
  expect(state()?.replicas).toEqual({});
  expect(asked.map(({ route }) => route.replace(/^.*\//, ""))).toEqual([
    "replicate",
    "recover",
    "replica",
    "start",
  ]);
});

test("a move to the node that keeps the copy turns the job round, and the old copy goes", async () => {
  await synced();
  await records.transact((tx) => noteMove(tx, { vmid: 100, id: "m", from: "n1", to: "n2", at: clock.now() }));
  expect(await new GuestMoves({ records, clock }).handOver("n1", { vmid: 100, moveId: "m" })).toBe("n2");
  expect(job()?.target).toBe("n1");
  await look();
  expect(asked.at(-1)).toMatchObject({ node: "n2", params: { vmid: 100, keep: false } });
  expect(state()?.replicas).toEqual({});
});

test("a move to a third node takes no copy away: the job goes on from there, and the VM from the copy until then", async () => {
  await synced();
  await records.transact((tx) => noteMove(tx, { vmid: 100, id: "m", from: "n1", to: "n3", at: clock.now() }));
  expect(await new GuestMoves({ records, clock }).handOver("n1", { vmid: 100, moveId: "m" })).toBe("n3");
  expect(job()?.target).toBe("n2");
  const before = asked.length;
  await look();
  expect(asked).toHaveLength(before);
  expect(state()).toMatchObject({ failCount: 0, replicas: { n2: expect.any(Number) } });
  await ask("POST /nodes/{node}/replication/{id}/schedule_now", { node: "n3", id: "100-0" });
  await look();
  expect(asked.at(-1)).toMatchObject({ node: "n3", params: { vmid: 100, target: "n2" } });
  // Nothing of that run has arrived.
  health["n3"] = "offline";
  await look();
  const result = await failover.run(100, { nodeIsOff: true }, ctx);
  expect(result).toMatchObject({ from: "n3", to: "n2", ageSeconds: 90 });
});

test("disks without a copy are named, and left behind only when asked for", async () => {
  await synced();
  health["n1"] = "offline";
  await records.transact((tx) => {
    const conf = `${CONF}scsi1: local:100/vm-100-disk-1.qcow2\n`;
    tx.put(guestCollection, "100", guestRecord({ vmid: 100, type: "qemu", node: "n1", conf }));
  });
  expect(await refusedBy(failover.run(100, { nodeIsOff: true }, ctx))).toContain(
    "never copied: scsi1 (local:100/vm-100-disk-1.qcow2)",
  );
  const result = await failover.run(100, { nodeIsOff: true, dropMissing: true }, ctx);
  expect(result.left).toEqual(["scsi1 (local:100/vm-100-disk-1.qcow2)"]);
  expect(records.collection(guestCollection).get("100")?.value.conf).toBe(CONF);
  // The copy of the node that it left is not its own any more.
  await records.transact((tx) => {
    const before = tx.get(replicationStateCollection, "100-0")?.value;
    tx.put(replicationStateCollection, "100-0", { failCount: 0, ...before, replicas: { n3: 1 } });
  });
  await look();
  expect(asked.at(-1)).toMatchObject({ node: "n3", params: { keep: false } });
});
