import type { RequestContext } from "@gpve/domain/request/context.ts";
import { upidNamer } from "@gpve/domain/task/operation-tasks.ts";
import { taskFromUpid } from "@gpve/domain/task/task.ts";
import type { Task, TaskEnd } from "@gpve/domain/task/task.ts";
import { describe, expect, it } from "vitest";
import { taskRecords } from "@gpve/domain/task/task-record.ts";
import { RecentTasks } from "../../../application/task/recent-tasks.ts";
import { RecordsTaskPublisher } from "@gpve/domain/task/records-task-publisher.ts";
import { MemoryRecords } from "../../../testing/memory-records.ts";
import { createClusterTaskHandlers } from "./cluster-task-handlers.ts";

function task(node: string, sequence: number, actor = "joe@pve", end?: TaskEnd): Task {
  const facts = { sequence, type: "qmstart", subject: "100", actor, createdAt: sequence * 1_000 };
  const made = taskFromUpid(upidNamer(node, () => 1)(facts), end);
  if (made === undefined) throw new Error("bad test task");
  return made;
}

const ok = (endtime: number): TaskEnd => ({ endtime, exitstatus: "OK" });
const put = (...tasks: readonly Task[]) => tasks.map((one) => ({ upid: one.upid, task: one }));

function setup() {
  const records = new MemoryRecords();
  const publisher = new RecordsTaskPublisher(records);
  const tasks = new RecentTasks(records.collection(taskRecords));
  const handler = createClusterTaskHandlers({ tasks })["GET /cluster/tasks"];
  const as = (authid: string, auditor = false) =>
    ({ actor: { userid: authid, authid }, access: { has: () => auditor } }) as unknown as RequestContext;
  const rows = (authid: string, auditor = false) => handler?.({}, as(authid, auditor)) as readonly Task[];
  return { records, publisher, tasks, rows };
}

describe("GET /cluster/tasks", () => {
  it("shows running ones first, without an end, then the newest", async () => {
    const { publisher, rows } = setup();
    await publisher.apply(
      put(task("n1", 1, "joe@pve", ok(50)), task("n2", 2, "ann@pve!ci", ok(60)), task("n1", 3)),
    );
    const all = rows("root@pam", true);
    expect(all.map(({ pid }) => pid)).toEqual([3, 2, 1]);
    expect(all[0]).not.toHaveProperty("endtime");
    expect(all[0]).not.toHaveProperty("status");
    expect(all[1]).toMatchObject({ user: "ann@pve", tokenid: "ci", status: "OK", endtime: 60, node: "n2" });
    expect(rows("ann@pve").map(({ pid }) => pid)).toEqual([2]);
    expect(rows("eve@pve")).toEqual([]);
  });

  it("keeps to what is recent on each node", async () => {
    const { publisher, rows } = setup();
    const many = Array.from({ length: 130 }, (_, n) => task("n1", n + 1, "joe@pve", ok(n)));
    await publisher.apply(put(...many, task("n2", 1, "joe@pve", ok(1))));
    const all = rows("root@pam", true);
    expect(all.filter(({ node }) => node === "n1")).toHaveLength(100);
    expect(all.filter(({ node }) => node === "n2")).toHaveLength(1);
  });

  it("computes the list once per change", async () => {
    const { publisher, tasks } = setup();
    await publisher.apply(put(task("n1", 1)));
    const before = tasks.list();
    expect(tasks.list()).toEqual(before);
    await publisher.apply(put(task("n1", 1, "joe@pve", ok(9))));
    expect(tasks.list()[0]?.endtime).toBe(9);
  });
});

describe("RecordsTaskPublisher", () => {
  it("writes only what is new, and takes records away", async () => {
    const { publisher, records } = setup();
    const one = task("n1", 1);
    await publisher.apply(put(one));
    const revision = records.collection(taskRecords).get(`n1/${one.upid}`)?.revision;
    await publisher.apply([...put(one), { upid: "junk", task: undefined }]);
    expect(records.collection(taskRecords).get(`n1/${one.upid}`)?.revision).toBe(revision);
    expect(await publisher.published("n1")).toEqual([{ upid: one.upid }]);
    expect(await publisher.published("n2")).toEqual([]);
    await publisher.apply([
      { upid: one.upid, task: undefined },
      { upid: task("n1", 9).upid, task: undefined },
    ]);
    expect(await publisher.published("n1")).toEqual([]);
  });
});
