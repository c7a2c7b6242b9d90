import { expect, test } from "vitest";
import { SERVER_TASKS_FROM } from "@gpve/domain/task/operation-tasks.ts";
import type { TaskDirectory } from "@gpve/domain/task/ports.ts";
import { taskRecordId, taskRecords } from "@gpve/domain/task/task-record.ts";
import { taskStops } from "@gpve/domain/task/task-stops.ts";
import { taskFromUpid } from "@gpve/domain/task/task.ts";
import { formatUpid } from "@gpve/domain/task/upid.ts";
import { silentLogger } from "@gpve/kit/logger.ts";
import { MemoryRecords } from "../../testing/memory-records.ts";
import { keepTaskStops, publishedServerTasks, tasksInNameOf } from "./published-server-tasks.ts";

const upidOf = (node: string, pid: number): string =>
  formatUpid({ node, pid, pstart: 1, starttime: 1_800_000_000, type: "hamigrate", id: "", user: "root@pam" });
const servers = (node: string, pid = 1): string => upidOf(node, SERVER_TASKS_FROM + pid);
const END = { endtime: 1_800_000_009, exitstatus: "OK" };

async function world(records = new MemoryRecords()) {
  const tell = (upid: string, end: object = {}) =>
    records.transact((tx) => tx.put(taskRecords, taskRecordId(upid) ?? "", { upid, ...end }));
  await tell(servers("n1"));
  await tell(servers("n2"), END);
  await tell(upidOf("n1", 5));
  let slept = 0;
  const clock = {
    sleep: () => {
      slept++;
      return new Promise<void>((resolve) => setImmediate(resolve));
    },
  };
  const published = publishedServerTasks(records, clock);
  return { records, tell, published, slept: () => slept };
}

function engineOf(upids: readonly string[], onStop: (upid: string, by: string) => unknown = () => undefined) {
  const own: TaskDirectory = {
    get: (upid) => (upids.includes(upid) ? taskFromUpid(upid) : undefined),
    list: () => upids.flatMap((upid) => taskFromUpid(upid) ?? []),
    stop: async (upid, by) => void (await onStop(upid, by)),
  };
  return own;
}

const upidsOf = (tasks: TaskDirectory): string[] => [...tasks.list()].map(({ upid }) => upid);

test("the records of all servers tell how their tasks stand", async () => {
  const { published, tell } = await world();
  expect(published.get(servers("n2"))).toMatchObject({ node: "n2", ...END });
  expect(published.get(servers("n3"))).toBeUndefined();
  expect(published.get(upidOf("n1", 5))).toBeUndefined();
  expect(upidsOf(published)).toEqual([servers("n1"), servers("n2")]);
  await tell(servers("n3"));
  expect(upidsOf(published)).toHaveLength(3);
});

test("in a node's name stands what this server runs for it, and what the others have told", async () => {
  const { published, tell } = await world();
  await tell(servers("n1", 2));
  const own = engineOf([servers("n1"), servers("n1", 3), servers("n9")]);
  const tasks = tasksInNameOf("n1", own, published);
  expect(upidsOf(tasks)).toEqual([servers("n1"), servers("n1", 3), servers("n1", 2)]);
  expect(tasks.get(servers("n1", 2))).toBeDefined();
  expect(tasks.get(servers("n1", 3))).toBeDefined();
});

test("a task of another server is stopped by that server", async () => {
  const { records, tell, published } = await world();
  const stopped: string[] = [];
  const own = engineOf([servers("n1")], (upid, by) => {
    stopped.push(by);
    return tell(upid, { ...END, exitstatus: "received interrupt" });
  });
  const done = keepTaskStops({ records, localNode: "n1", own, log: silentLogger });
  await tasksInNameOf("n1", engineOf([]), published).stop(servers("n1"), "ann@pve");
  expect(stopped).toEqual(["ann@pve"]);
  await expect.poll(() => records.collection(taskStops).list()).toEqual([]);
  // What has ended needs no stop.
  await published.stop(servers("n2"), "ann@pve");
  expect(records.collection(taskStops).list()).toEqual([]);
  done();
});

test("a stop waits for a server that is away, and no longer than others wait", async () => {
  const { records, published, slept } = await world();
  await published.stop(servers("n1"), "ann@pve");
  expect(slept()).toBe(50);
  expect(records.collection(taskStops).list()).toHaveLength(1);
  const stopped: string[] = [];
  const own = engineOf([servers("n1")], (upid) => stopped.push(upid));
  for (const localNode of ["n2", "n1"]) keepTaskStops({ records, localNode, own, log: silentLogger })();
  await expect.poll(() => records.collection(taskStops).list()).toEqual([]);
  expect(stopped).toEqual([servers("n1")]);
});

test("a stop that fails stays for the next start", async () => {
  const { records, published } = await world();
  const own = engineOf([servers("n1")], () => Promise.reject(new Error("away")));
  const done = keepTaskStops({ records, localNode: "n1", own, log: silentLogger });
  await published.stop(servers("n1"), "ann@pve");
  expect(records.collection(taskStops).list()).toHaveLength(1);
  done();
  expect(() => taskStops.decode({ upid: 1 })).toThrow("does not know");
});
