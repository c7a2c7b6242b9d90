import { clusterBackupCollection } from "@gpve/domain/backup/cluster-backups.ts";
import {
  leftBackupCollection,
  leftBackupsId,
  seenBackupCollection,
} from "@gpve/domain/backup/left-backups.ts";
import { guestCollection, guestRecord } from "@gpve/domain/guest/guest-record.ts";
import type { AgentReply } from "@gpve/domain/node/agent-port.ts";
import { FakeAgent } from "@gpve/domain/node/testing/fake-agent.ts";
import { AgentUnreachable } from "@gpve/domain/node/agent-port.ts";
import { resourceCollection } from "@gpve/domain/ha/collections.ts";
import type { Quota } from "@gpve/domain/quota/quota.ts";
import { FakeClock } from "@gpve/kit/testing/fake-clock.ts";
import { openSqliteStore } from "@gpve/store/sqlite/sqlite-store.ts";
import { afterEach, describe, expect, test } from "vitest";
import {
  distantStore,
  openQuotaServer,
  openReservations,
  putTenants,
  reportOf,
  type QuotaServer,
} from "../../testing/quota-world.ts";
import { soakQuotas } from "../../testing/quota-soak.ts";
import { poolsDef } from "@gpve/domain/access/collections.ts";
import { taskRecords } from "@gpve/domain/task/task-record.ts";
import { GuestRules } from "../scheduler/guest-rules.ts";
import { reservationsDef } from "./quota-records.ts";

const GIB = 1024 ** 3;
const UPID = "UPID:n1:00000001:00000001:00000001:qmcreate:100:root@pam:";
const CREATE = "POST /nodes/{node}/qemu";
const START = "POST /nodes/{node}/qemu/{vmid}/status/start";
const quota: Quota = { name: "a", tenant: "a", limits: { cpu: 4, storage: 10 * GIB }, requests: {} };

let closing: (() => Promise<void>)[] = [];
afterEach(async () => {
  for (const close of closing.reverse()) await close();
  closing = [];
});

async function world(quotas: readonly Quota[] = [quota]) {
  const store = distantStore(openSqliteStore({ path: ":memory:" }));
  const clock = new FakeClock(1_000_000);
  const node = new FakeAgent({ answer: () => ({ data: UPID }) });
  const open = async (owner: string): Promise<QuotaServer> => {
    const server = await openQuotaServer(store, { owner, clock, node });
    closing.push(() => server.close());
    return server;
  };
  const server = await open("s1");
  await putTenants(server.records, quotas, ["a", "a/b", "b"]);
  const put = (vmid: number, conf: string, pool?: string) =>
    server.records.transact((tx) => {
      tx.put(guestCollection, String(vmid), guestRecord({ vmid, type: "qemu", node: "n1", conf }));
      const known = pool === undefined ? undefined : tx.get(poolsDef, pool)?.value;
      if (known !== undefined) tx.put(poolsDef, known.poolid, { ...known, vms: [...known.vms, vmid] });
    });
  const create = (vmid: number, more: object = {}, at = server) =>
    at.call(CREATE, { vmid, pool: "a", cores: 2, ...more }, `r${vmid}`);
  const endTask = () =>
    server.records.transact((tx) =>
      tx.put(taskRecords, `n1/${UPID}`, {
        upid: UPID,
        endtime: Math.floor(clock.now() / 1000),
        exitstatus: "OK",
      }),
    );
  return { server, store, open, node, clock, put, create, endTask };
}

test("refuses what is too much before the node hears of it, in words that help", async () => {
  const { create, node, put } = await world();
  await put(99, "cores: 3\n", "a/b");
  await expect(create(100)).rejects.toMatchObject({
    code: "capacity.exceeded",
    message:
      "unable to create VM 100: quota exceeded - cpu of tenant 'a': used 3, asked 2, hard 4 (quota 'a'). " +
      "Free some of it, or ask somebody with Pool.Allocate on /pool to raise the quota",
  });
  expect(node.calls).toEqual([]);
  await create(100, { pool: "b" });
  expect(node.calls).toHaveLength(1);
});

test("promises hold from before the work begins until its task has ended", async () => {
  const { create, endTask, server } = await world();
  await create(100);
  await create(101);
  await expect(create(102)).rejects.toThrow("used 4, asked 2, hard 4");
  await endTask();
  await expect(create(103)).resolves.toBeDefined();
  expect(
    server.records
      .collection(reservationsDef)
      .list()
      .map(({ value }) => value.vmid),
  ).toContain(103);
});

test("what the node refuses is given back at once, what is not known later", async () => {
  const { create, node, clock, server } = await world();
  node.answer = () => {
    throw new AgentUnreachable(595, "no route to host");
  };
  await expect(create(100)).rejects.toThrow("no route");
  expect(openReservations(server.records)).toBe(0);
  node.answer = () => {
    throw new AgentUnreachable(596, "broken pipe");
  };
  await expect(create(101)).rejects.toThrow("broken pipe");
  await expect(create(102)).rejects.toThrow("broken pipe");
  await expect(create(103)).rejects.toThrow("quota exceeded");
  await clock.advance(70_000);
  await expect(create(104)).rejects.toThrow("broken pipe");
});

test("a server that was killed leaves nothing behind, when the node knows nothing of it", async () => {
  const { create, node, open, clock } = await world();
  const { promise, resolve } = Promise.withResolvers<AgentReply>();
  node.answer = () => promise as unknown as AgentReply;
  const killed = [create(100), create(101)];
  const again = await open("s1");
  node.answer = () => ({ data: UPID });
  await expect.poll(() => openReservations(again.records)).toBe(2);
  await expect(create(102, {}, again)).rejects.toThrow("used 4");
  await clock.advance(70_000);
  await create(102, {}, again);
  resolve({ data: UPID });
  await Promise.all(killed);
});

test("two servers never promise the same room", async () => {
  const { create, open, server } = await world();
  const other = await open("s2");
  const results = await Promise.allSettled(
    Array.from({ length: 12 }, (_, index) =>
      create(100 + index, { cores: 3 }, index % 2 === 0 ? server : other),
    ),
  );
  expect(results.filter(({ status }) => status === "fulfilled")).toHaveLength(1);
});

test("changes, growth and moves count what they add, and what is over already may still shrink", async () => {
  const { server, put } = await world();
  await put(100, "cores: 2\nscsi0: local:100/vm-100-disk-0.raw,size=8G\n", "a");
  await put(101, "cores: 9\n", "a");
  const change = (route: string, params: object) => server.call(route, { vmid: 100, ...params }, "r");
  const config = "PUT /nodes/{node}/qemu/{vmid}/config";
  await expect(change(config, { cores: 3 })).rejects.toThrow("cpu of tenant 'a': used 11, asked 1, hard 4");
  await expect(change(config, { scsi1: "local:3" })).rejects.toThrow("used 8Gi, asked 3Gi, hard 10Gi");
  await expect(
    change("PUT /nodes/{node}/qemu/{vmid}/resize", { disk: "scsi0", size: "+3G" }),
  ).rejects.toThrow(
    "unable to resize a disk of VM 100: quota exceeded - storage of tenant 'a': used 8Gi, asked 3Gi, hard 10Gi",
  );
  await change(config, { cores: 1 });
  await change("PUT /nodes/{node}/qemu/{vmid}/resize", { disk: "scsi0", size: "+2G" });
});

test("invalid parameters are said to be so, not to be too much", async () => {
  const { create, node } = await world();
  await expect(create(100, { cores: "many" })).rejects.toMatchObject({
    errors: { cores: expect.any(String) },
  });
  expect(node.calls).toEqual([]);
});

test("sizes that only the node knows are asked of it first", async () => {
  const { create, node } = await world();
  node.answer = ({ decision }) =>
    decision.route.startsWith("GET") ? { data: { size: 20 * GIB, used: 1 } } : { data: UPID };
  await expect(create(100, { scsi0: "local:0,import-from=local:import/x.qcow2" })).rejects.toThrow(
    "used 0, asked 20Gi, hard 10Gi",
  );
  const archived = "cores: 8\nscsi0: local:1/vm-1-disk-0.raw,size=1G\n";
  node.answer = () => ({ data: archived });
  await expect(create(100, { archive: "local:backup/vzdump-qemu-1.vma", cores: undefined })).rejects.toThrow(
    "asked 8, hard 4",
  );
});

describe("what may run at once", () => {
  const running: Quota = { name: "r", tenant: "a", limits: {}, requests: { cpu: 4 } };

  test("counts what nodes say runs, and what was started until they say it does not", async () => {
    const { server, put, clock, endTask } = await world([running]);
    for (const vmid of [100, 101, 102]) await put(vmid, "cores: 2\n", "a");
    const start = (vmid: number) => server.call(START, { vmid }, `start${vmid}`);
    server.board.accept(reportOf([{ vmid: 100, status: "running" }], clock.now()));
    await start(101);
    await expect(start(102)).rejects.toThrow(
      "cpu of tenant 'a' that may run at once: used 4, asked 2, hard 4",
    );
    await endTask();
    await expect(start(102)).rejects.toThrow("quota exceeded");
    await clock.advance(3000);
    server.board.accept(reportOf([{ vmid: 100, status: "running" }], clock.now()));
    await start(102);
  });

  test("counts what HA shall start, and asks before HA is told", async () => {
    const { server, store, put, clock, node } = await world([running]);
    for (const vmid of [100, 101, 102]) await put(vmid, "cores: 2\n", "a");
    server.board.accept(reportOf([], clock.now()));
    const told: number[] = [];
    const under = await openQuotaServer(store, {
      owner: "s2",
      clock,
      node,
      divert: async (_route, { params: { vmid } }) => {
        told.push(Number(vmid));
        await server.records.transact((tx) =>
          tx.put(resourceCollection, `vm:${Number(vmid)}`, {
            sid: `vm:${Number(vmid)}`,
            state: "started",
            maxRestart: 1,
            maxRelocate: 1,
            failback: true,
            autoRebalance: true,
          }),
        );
        return { data: null };
      },
    });
    closing.push(() => under.close());
    under.board.accept(reportOf([], clock.now()));
    await under.call(START, { vmid: 100 }, "s100");
    await under.call(START, { vmid: 101 }, "s101");
    await expect(under.call(START, { vmid: 102 }, "s102")).rejects.toThrow(
      "cpu of tenant 'a' that may run at once: used 4, asked 2, hard 4",
    );
    expect(told).toEqual([100, 101]);
  });

  test("takes every guest of a node that has told nothing yet for running", async () => {
    const { server, put, create } = await world([running]);
    for (const vmid of [100, 101, 102]) await put(vmid, "cores: 2\n", "a");
    await expect(create(103, { start: true })).rejects.toThrow("used 6, asked 2, hard 4");
    server.board.accept(reportOf([], 0));
    await create(104, { start: true });
  });
});

test("many at once on two servers: never over, exact at the end", async () => {
  const store = distantStore(openSqliteStore({ path: ":memory:" }));
  let seed = 1;
  const random = () => (seed = (seed * 48_271) % 2_147_483_647) / 2_147_483_647;
  const { made, refused, peaks, hard, exact, left } = await soakQuotas({
    stores: [store, store],
    requests: 120,
    random,
  });
  for (const [tenant, most] of Object.entries(peaks))
    expect([tenant, most]).toEqual([tenant, Math.min(most, hard[tenant] ?? 0)]);
  expect(made).toBeGreaterThan(20);
  expect(refused).toBeGreaterThan(20);
  for (const [records, ledger] of Object.values(exact)) expect(ledger).toBe(records);
  expect(left).toBe(0);
  await store.close();
});

test("a scope by priority counts what spec.scheduling says, and a raised priority needs room too", async () => {
  const urgent: Quota = { ...quota, limits: { cpu: 4 }, scope: { priority: { min: 100 } } };
  const { server, clock, put, create } = await world([urgent]);
  const { records, quotas } = server;
  const rules = new GuestRules({ records, clock, quotas: quotas.ledger });
  const used = () => quotas.view.usage(urgent).limits["cpu"] ?? 0;
  await put(98, "cores: 3\n", "a");
  await put(99, "cores: 3\n", "a");
  expect(used()).toBe(0);
  await rules.set("98", { priority: 100 });
  expect(used()).toBe(3);
  await expect(rules.set("99", { priority: 500 })).rejects.toThrow(
    "unable to give VM 99 the priority 500: quota exceeded - cpu of tenant 'a': used 3, asked 3, hard 4",
  );
  expect(quotas.view.priorityOf(99)).toBeUndefined();
  await rules.set("99", { priority: 99 });
  // A guest that is being made has the priority that was written before it.
  await rules.set("100", { priority: 200 });
  await expect(create(100)).rejects.toThrow("used 3, asked 2, hard 4");
  await create(100, { cores: 1 });
  expect(used()).toBe(4);
  await create(101, { cores: 8 });
  expect(used()).toBe(4);
  await rules.set("98", undefined);
  expect(used()).toBe(1);
});

test("backups are promised on both faces, and counted when the guest's record shows them", async () => {
  const few: Quota = { ...quota, limits: { backups: 2 } };
  const { server, node, put, endTask } = await world([few]);
  const used = () => server.quotas.view.usage(few).limits["backups"] ?? 0;
  const note = (backups: number) =>
    server.records.transact((tx) => {
      const guest = tx.get(guestCollection, "198")?.value;
      if (guest !== undefined) tx.put(guestCollection, "198", { ...guest, backups });
    });
  await put(198, "cores: 1\n", "a");
  await put(199, "cores: 1\n", "a/b");
  await server.call("POST /nodes/{node}/vzdump", { vmid: "198" }, "r1");
  expect(used()).toBe(1);
  await note(1);
  await endTask();
  await expect.poll(() => openReservations(server.records)).toBe(0);
  expect(used()).toBe(1);
  node.answer = () => ({ data: UPID.replace("1:qmcreate:100", "2:vzdump:") });
  await expect(server.call("POST /nodes/{node}/vzdump", { all: 1 }, "r2")).rejects.toThrow(
    "unable to back up VM 198, VM 199: quota exceeded - backups of tenant 'a': used 1, asked 2, hard 2 (quota 'a')",
  );
  const own = { vmid: 199, storage: "local", backup: {}, requestId: "r3" };
  await server.call("POST /gpve/nodes/{node}/vms/{vmid}/backup", own, "r3");
  expect(used()).toBe(2);
  const again = server.call("POST /gpve/nodes/{node}/vms/{vmid}/backup", own, "r4");
  await expect(again).rejects.toThrow("unable to back up VM 199: quota exceeded");
  // Removing is never refused, and what is over when a quota is set stays.
  await note(0);
  expect(used()).toBe(1);
});

test("backups of guests that are gone count for their pool until their node sees them no more", async () => {
  const { server, clock, put } = await world([
    { name: "a", tenant: "a", limits: { backups: 2 }, requests: {} },
  ]);
  await put(199, "cores: 1\n", "a");
  const left = { vmid: 198, type: "qemu", node: "n1", pool: "a/b", until: 1, backups: 2 } as const;
  const [id, seen] = [leftBackupsId(left), seenBackupCollection("n1")];
  await server.records.transact((tx) => {
    tx.put(leftBackupCollection, id, left);
    tx.put(seen, id, { backups: 7 });
  });
  const backUp = (requestId: string) => server.call("POST /nodes/{node}/vzdump", { vmid: "199" }, requestId);
  await expect(backUp("r1")).rejects.toThrow("backups of tenant 'a': used 2, asked 1, hard 2");
  await server.records.transact((tx) => tx.put(seen, id, { backups: 0 }));
  await expect(backUp("r2")).resolves.toMatchObject({ data: UPID });
  await clock.advance(5_000);
  await expect.poll(() => server.records.collection(leftBackupCollection).list()).toEqual([]);
});

describe("backups of virtual clusters", () => {
  const BACKUP = "POST /gpve/nodes/{node}/vclusters/{vcluster}/backup";
  const params = { vcluster: "demo", tenant: "a/b", storage: "local", requestId: "r" };

  test("count for the tenant in their name, whether or not the cluster is there", async () => {
    const bound = { ...quota, limits: { backups: 3 } };
    const { server, node, clock, endTask } = await world([bound]);
    const seen = (counts: Record<string, number>) =>
      server.records.transact((tx) =>
        tx.put(clusterBackupCollection("n1"), "demo_a=b", { name: "demo", tenant: "a/b", counts }),
      );
    await seen({ "local@n1": 1, nas: 1 });
    expect(server.quotas.view.usage(bound).limits).toMatchObject({ backups: 2 });
    await server.call(BACKUP, params, "r1");
    // Promised, and not counted by its node yet.
    expect(server.quotas.view.usage(bound).limits).toMatchObject({ backups: 3 });
    await expect(server.call(BACKUP, params, "r2")).rejects.toMatchObject({
      code: "capacity.exceeded",
      message: expect.stringContaining("unable to back up virtual cluster demo: quota exceeded - backups"),
    });
    expect(node.calls).toHaveLength(1);
    await seen({ "local@n1": 2, nas: 1 });
    await endTask();
    await clock.advance(5_000);
    expect(server.quotas.view.usage(bound).limits).toMatchObject({ backups: 3 });
    await seen({ "local@n1": 1 });
    await server.call(BACKUP, params, "r3");
    expect(node.calls).toHaveLength(2);
  });
});
