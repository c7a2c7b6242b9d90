import { expect, test } from "vitest";
import type { AgentCall } from "@gpve/domain/node/agent-port.ts";
import { FakeAgent } from "@gpve/domain/node/testing/fake-agent.ts";
import { SERVER_TASKS_FROM } from "@gpve/domain/task/operation-tasks.ts";
import type { TaskDirectory } from "@gpve/domain/task/ports.ts";
import { taskFromUpid } from "@gpve/domain/task/task.ts";
import { formatUpid } from "@gpve/domain/task/upid.ts";
import { publishedServerTasks, withServerTasks } from "./server-tasks.ts";

const upidOf = (node: string, pid: number): string =>
  formatUpid({ node, pid, pstart: 1, starttime: 1_800_000_000, type: "apply", id: "", user: "root@pam" });
const servers = (node: string): string => upidOf(node, SERVER_TASKS_FROM + 1);

const named = (node: string, who: string) => new FakeAgent({ node, answer: () => ({ data: who }) });
const known = new Set([servers("n1")]);
const tasks: TaskDirectory = {
  get: (upid) => (known.has(upid) ? taskFromUpid(upid) : undefined),
  list: () => [],
  stop: () => Promise.resolve(),
};
const told = new Map<string, number>();
let slept = 0;
const directory = withServerTasks(
  { connection: (node) => (node === "n9" ? undefined : named(node, `agent of ${node}`)) },
  {
    localNode: "n1",
    own: tasks,
    published: {
      ...tasks,
      get: (upid) => ((told.get(upid) ?? 99) <= slept ? taskFromUpid(upid) : undefined),
    },
    clock: {
      sleep: () => {
        slept++;
        return Promise.resolve();
      },
    },
    serve: (node) => named(node, `this server for ${node}`),
  },
);
const ask = async (node: string, upid: string | undefined, what = "status"): Promise<unknown> => {
  const call = {
    decision: { route: `GET /nodes/{node}/tasks/{upid}/${what}` },
    params: upid === undefined ? {} : { upid },
  } as unknown as AgentCall;
  return (await directory.connection(node)?.call(call, new AbortController().signal))?.data;
};

test("what this server runs is answered here, all else by the node's agent", async () => {
  expect(await ask("n1", servers("n1"))).toBe("this server for n1");
  expect(await ask("n1", servers("n1"), "log")).toBe("this server for n1");
  expect(await ask("n1", upidOf("n1", 5))).toBe("agent of n1");
  expect(await ask("n1", undefined)).toBe("agent of n1");
  expect(await ask("n2", upidOf("n2", 5))).toBe("agent of n2");
  expect(directory.connection("n9")).toBeUndefined();
});

test("how a task of another server stands is answered here; its log is where it runs", async () => {
  told.set(servers("n2"), 3);
  expect(await ask("n2", servers("n2"))).toBe("this server for n2");
  // It was waited for until the other server had told of it.
  expect(slept).toBe(3);
  expect(await ask("n2", servers("n2"), "log")).toBe("agent of n2");
});

test("the records of all servers tell how their tasks stand", async () => {
  const upid = servers("n2");
  const record = { upid, endtime: 1_800_000_009, exitstatus: "OK" };
  const published = publishedServerTasks({
    get: (id) => (id === `n2/${upid}` ? { id, value: record, revision: 1 } : undefined),
  } as Parameters<typeof publishedServerTasks>[0]);
  expect(published.get(upid)).toMatchObject({ node: "n2", endtime: 1_800_000_009, exitstatus: "OK" });
  expect(published.get(servers("n3"))).toBeUndefined();
  expect(published.get(upidOf("n2", 5))).toBeUndefined();
  await expect(published.stop(upid, "root@pam")).rejects.toThrow("runs in another server");
});
