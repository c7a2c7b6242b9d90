import { mkdirSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { AppError } from "@gpve/contracts/errors.ts";
import type { TaskPublisher } from "@gpve/domain/task/ports.ts";
import { applyTaskChanges, taskRecordId, type TaskRecord } from "@gpve/domain/task/task-record.ts";
import { parseUpid } from "@gpve/domain/task/upid.ts";
import { systemClock } from "@gpve/kit/clock.ts";
import { FakeClock } from "@gpve/kit/testing/fake-clock.ts";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { openAgentOperations } from "./agent-operations.ts";
import type { AgentOperations } from "./agent-operations.ts";

let directory: string;
let cluster: Map<string, TaskRecord>;
beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), "gpve-agent-operations-"));
  mkdirSync(join(directory, "agent"));
  cluster = new Map();
});
afterEach(() => rmSync(directory, { recursive: true, force: true }));

const inCluster: TaskPublisher = {
  apply: async (changes) =>
    applyTaskChanges(
      {
        get: (id) => cluster.get(id),
        put: (id, record) => void cluster.set(id, record),
        delete: (id) => void cluster.delete(id),
      },
      changes,
    ),
  published: async (node) => [...cluster].filter(([id]) => id.startsWith(`${node}/`)).map(([, task]) => task),
};

function open(publisher = inCluster, clock = systemClock): AgentOperations {
  const operations = openAgentOperations({
    file: (...parts) => join(directory, ...parts),
    node: "n1",
    clock,
    logger: { warn: () => {}, error: () => {} },
    publisher,
    beforeEnd: async () => undefined,
    concurrency: 2,
    crash: { hit: () => {} },
  });
  operations.engine.register({ type: "talk", steps: [{ name: "a", run: (ctx) => ctx.log("hello") }] });
  return operations;
}

async function until(check: () => boolean): Promise<void> {
  while (!check()) await systemClock.sleep(2);
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
    await until(() => [...cluster.values()].some(({ exitstatus }) => exitstatus === "OK"));
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
    const first = open(inCluster, clock);
    await first.start();
    const alike = { type: "talk", resources: ["vm/7"], actor: "joe@pve", subject: "7" };
    const all = await Promise.all(Array.from({ length: 1_000 }, () => first.engine.submit(alike)));
    const upids = new Set(all.map(({ upid }) => upid));
    expect(upids.size).toBe(1_000);
    expect(new Set([...upids].map((upid) => parseUpid(upid)?.starttime)).size).toBe(1);
    await Promise.all([...upids].map((upid) => first.engine.wait(upid)));
    await first.stop();
    const second = open(inCluster, clock);
    await second.start();
    expect(new Set([...second.tasks.list()].map(({ upid }) => upid))).toEqual(upids);
    await second.stop();
  });

  it("takes back records of tasks that it no longer knows, and leaves the server's alone", async () => {
    const gone = "UPID:n1:00000009:00000001:00000001:old:1:joe@pve:";
    const servers = "UPID:n1:40000001:00000001:00000001:old:1:joe@pve:";
    const end = { endtime: 1, exitstatus: "OK" };
    for (const upid of [gone, servers]) cluster.set(taskRecordId(upid) ?? "", { upid, ...end });
    const operations = open();
    await operations.start();
    await until(() => cluster.size === 1);
    expect([...cluster.values()]).toEqual([{ upid: servers, ...end }]);
    await operations.stop();
  });

  it("works on while the cluster store is away", async () => {
    const clock = new FakeClock();
    const fail = () => Promise.reject(new AppError("store.unavailable", "away"));
    const operations = open({ apply: fail, published: fail }, clock);
    await operations.start();
    const { upid } = await operations.engine.submit({ type: "talk", resources: [], actor: "joe@pve" });
    expect((await operations.engine.wait(upid)).state).toBe("done");
    await operations.stop();
  });
});
