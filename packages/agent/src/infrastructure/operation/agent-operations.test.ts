import { mkdirSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { AppError } from "@gpve/contracts/errors.ts";
import { parseUpid } from "@gpve/domain/task/upid.ts";
import { systemClock } from "@gpve/kit/clock.ts";
import { FakeClock } from "@gpve/kit/testing/fake-clock.ts";
import { fromUtf8, utf8 } from "@gpve/store/keys.ts";
import type { Store } from "@gpve/store/port.ts";
import { openSqliteStore } from "@gpve/store/sqlite/sqlite-store.ts";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { openAgentOperations } from "./agent-operations.ts";
import type { AgentOperations } from "./agent-operations.ts";
import { StoreTaskPublisher } from "./store-task-publisher.ts";

let directory: string;
let cluster: Store;
beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), "gpve-agent-operations-"));
  mkdirSync(join(directory, "agent"));
  cluster = openSqliteStore({ path: ":memory:" });
});
afterEach(async () => {
  await cluster.close();
  rmSync(directory, { recursive: true, force: true });
});

const published = async (): Promise<unknown[]> => {
  const { kvs } = await cluster.range({ key: utf8("/gpve/tasks/n1/"), end: utf8("/gpve/tasks/n10") });
  return kvs.map((kv) => JSON.parse(fromUtf8(kv.value)) as unknown);
};

function open(store: Store = cluster, clock = systemClock): AgentOperations {
  const operations = openAgentOperations({
    file: (...parts) => join(directory, ...parts),
    node: "n1",
    clock,
    logger: { warn: () => {}, error: () => {} },
    publisher: new StoreTaskPublisher(store),
    metrics: { queue: () => {}, ended: () => {} },
    concurrency: 2,
    crash: { hit: () => {} },
  });
  operations.engine.register({ type: "talk", steps: [{ name: "a", run: (ctx) => ctx.log("hello") }] });
  return operations;
}

async function until(check: () => Promise<boolean>): Promise<void> {
  while (!(await check())) await systemClock.sleep(2);
}

describe("openAgentOperations", () => {
  it("runs, publishes, remembers and numbers on after a restart", async () => {
    const first = open();
    await first.start();
    const { upid } = await first.engine.submit({
      type: "talk",
      resources: [],
      actor: "joe@pve",
      subject: "7",
    });
    expect(first.tasks.get(upid)).toMatchObject({ node: "n1", type: "talk", id: "7", pid: 1 });
    await first.engine.wait(upid);
    await until(async () => JSON.stringify(await published()).includes('"OK"'));
    await first.stop();

    const second = open();
    await second.start();
    expect(second.tasks.get(upid)).toMatchObject({ exitstatus: "OK" });
    expect((await second.logs.read(upid, 0, 0))?.rows.map(({ t }) => t)).toEqual(["hello", "TASK OK"]);
    const next = await second.engine.submit({ type: "talk", resources: [], actor: "joe@pve" });
    expect(parseUpid(next.upid)?.pid).toBe(2);
    await second.engine.wait(next.upid);
    await second.stop();
  });

  it("gives a thousand tasks alike in one second a thousand UPIDs, durably", async () => {
    const clock = new FakeClock();
    const first = open(cluster, clock);
    await first.start();
    const alike = { type: "talk", resources: ["vm/7"], actor: "joe@pve", subject: "7" };
    const all = await Promise.all(Array.from({ length: 1_000 }, () => first.engine.submit(alike)));
    const upids = new Set(all.map(({ upid }) => upid));
    expect(upids.size).toBe(1_000);
    expect(new Set([...upids].map((upid) => parseUpid(upid)?.starttime)).size).toBe(1);
    await Promise.all([...upids].map((upid) => first.engine.wait(upid)));
    await first.stop();
    const second = open(cluster, clock);
    await second.start();
    expect(new Set([...second.tasks.list()].map(({ upid }) => upid))).toEqual(upids);
    await second.stop();
  });

  it("takes back records of tasks that it no longer knows, and leaves the server's alone", async () => {
    const gone = "UPID:n1:00000009:00000001:00000001:old:1:joe@pve:";
    const servers = "UPID:n1:40000001:00000001:00000001:old:1:joe@pve:";
    const end = { endtime: 1, exitstatus: "OK" };
    await cluster.txn({
      compare: [],
      success: [gone, servers].map((upid) => ({
        type: "put",
        key: utf8(`/gpve/tasks/n1/${upid}`),
        value: utf8(JSON.stringify({ upid, ...end })),
      })),
    });
    const operations = open();
    await operations.start();
    await until(async () => (await published()).length === 1);
    expect(await published()).toEqual([{ upid: servers, ...end }]);
    await operations.stop();
  });

  it("works on while the cluster store is away", async () => {
    const clock = new FakeClock();
    const away = Object.assign(Object.create(cluster) as Store, {
      range: () => Promise.reject(new AppError("store.unavailable", "away")),
    });
    const operations = open(away, clock);
    await operations.start();
    const { upid } = await operations.engine.submit({ type: "talk", resources: [], actor: "joe@pve" });
    expect((await operations.engine.wait(upid)).state).toBe("done");
    await operations.stop();
  });
});

describe("StoreTaskPublisher", () => {
  it("tries again when somebody else was quicker, and writes nothing twice", async () => {
    const upid = "UPID:n1:00000009:00000001:00000001:old:1:joe@pve:";
    const task = {
      upid,
      node: "n1",
      pid: 9,
      pstart: 1,
      starttime: 1,
      type: "old",
      id: "1",
      authid: "joe@pve",
    };
    let isFirst = true;
    const racing = Object.assign(Object.create(cluster) as Store, {
      range: cluster.range.bind(cluster),
      txn: async (request: Parameters<Store["txn"]>[0]) => {
        if (isFirst) {
          isFirst = false;
          await cluster.txn({
            compare: [],
            success: [
              { type: "put", key: utf8(`/gpve/tasks/n1/${upid}`), value: utf8(JSON.stringify({ upid })) },
            ],
          });
        }
        return cluster.txn(request);
      },
    });
    const publisher = new StoreTaskPublisher(racing);
    await publisher.apply([{ upid: "junk", task }]);
    await publisher.apply([{ upid, task: { ...task, endtime: 5, exitstatus: "OK" } }]);
    expect(await published()).toEqual([{ upid, endtime: 5, exitstatus: "OK" }]);
    const revision = await cluster.revision();
    await publisher.apply([{ upid, task: { ...task, endtime: 5, exitstatus: "OK" } }]);
    expect(await cluster.revision()).toBe(revision);
    await publisher.apply([{ upid, task: undefined }]);
    expect(await publisher.published("n1")).toEqual([]);
  });
});
