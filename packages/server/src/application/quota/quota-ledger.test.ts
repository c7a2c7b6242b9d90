import { guestCollection, guestRecord } from "@gpve/domain/guest/guest-record.ts";
import type { AgentCall, AgentConnection, AgentReply } from "@gpve/domain/node/agent-port.ts";
import { AgentUnreachable } from "@gpve/domain/node/agent-port.ts";
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
import { reservationsDef } from "./quota-records.ts";

const GIB = 1024 ** 3;
const UPID = "UPID:n1:00000001:00000001:00000001:qmcreate:100:root@pam:";
const CREATE = "POST /nodes/{node}/qemu";
const START = "POST /nodes/{node}/qemu/{vmid}/status/start";
const quota: Quota = { name: "a", tenant: "a", limits: { cpu: 4, storage: 10 * GIB }, requests: {} };

/** Answers as it is told to. */
class ToldNode implements AgentConnection {
  readonly node = "n1";
  readonly seen: AgentCall[] = [];
  answer: (call: AgentCall) => AgentReply = () => ({ data: UPID });

  call(call: AgentCall): Promise<AgentReply> {
    this.seen.push(call);
    return Promise.resolve().then(() => this.answer(call));
  }
}

let closing: (() => Promise<void>)[] = [];
afterEach(async () => {
  for (const close of closing.reverse()) await close();
  closing = [];
});

async function world(quotas: readonly Quota[] = [quota]) {
  const store = distantStore(openSqliteStore({ path: ":memory:" }));
  const clock = new FakeClock(1_000_000);
  const node = new ToldNode();
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
  return { server, open, node, clock, put, create, endTask };
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
  expect(node.seen).toEqual([]);
  await create(100, { pool: "b" });
  expect(node.seen).toHaveLength(1);
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
  expect(node.seen).toEqual([]);
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
