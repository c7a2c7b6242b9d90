import { expect, test } from "vitest";
import type { AgentCall } from "@gpve/domain/node/agent-port.ts";
import { FakeAgent } from "@gpve/domain/node/testing/fake-agent.ts";
import { SERVER_TASKS_FROM } from "@gpve/domain/task/operation-tasks.ts";
import type { TaskDirectory } from "@gpve/domain/task/ports.ts";
import { taskFromUpid } from "@gpve/domain/task/task.ts";
import { formatUpid } from "@gpve/domain/task/upid.ts";
import { serverTaskNode, withServerTasks } from "./server-tasks.ts";

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

test("what this server runs is answered here in whatever node's name it is asked for", async () => {
  for (const what of ["status", "log"])
    expect(await ask("n2", servers("n1"), what)).toBe("this server for n2");
});

test("a wish to stop a task of another server is taken here", async () => {
  told.set(servers("n2"), 0);
  const call = { decision: { route: "DELETE /nodes/{node}/tasks/{upid}" }, params: { upid: servers("n2") } };
  const reply = directory.connection("n2")?.call(call as unknown as AgentCall, new AbortController().signal);
  expect((await reply)?.data).toBe("this server for n2");
});

test("a node's list has what its agent and what servers run, in one order and by one page", async () => {
  const row = (pid: number, starttime: number, endtime?: number) => ({ pid, starttime, endtime });
  const lists: Record<string, readonly unknown[]> = {
    agent: [row(5, 40), row(3, 10, 30), row(2, 5, 9)],
    servers: [row(7, 50), row(6, 20, 25)],
  };
  const asked: unknown[] = [];
  const listing = (who: string) =>
    new FakeAgent({
      node: "n2",
      answer: ({ params }) => {
        asked.push(params);
        return { data: (lists[who] ?? []).slice(0, Number(params["limit"])), total: lists[who]?.length ?? 0 };
      },
    });
  const both = withServerTasks(
    { connection: () => listing("agent") },
    {
      localNode: "n1",
      own: tasks,
      published: tasks,
      clock: { sleep: () => Promise.resolve() },
      serve: () => listing("servers"),
    },
  );
  const page = async (params: object) => {
    const call = { decision: { route: "GET /nodes/{node}/tasks" }, params: { node: "n2", ...params } };
    const reply = await both
      .connection("n2")
      ?.call(call as unknown as AgentCall, new AbortController().signal);
    const rows = (reply?.data ?? []) as readonly { pid: number }[];
    return { pids: rows.map(({ pid }) => pid), total: reply?.total };
  };
  expect(await page({ source: "all" })).toEqual({ pids: [7, 5, 3, 6, 2], total: 5 });
  expect(await page({ start: "1", limit: "2" })).toEqual({ pids: [5, 3], total: 5 });
  expect(asked.at(-1)).toEqual({ node: "n2", start: "0", limit: "3" });
  await expect(page({ limit: "x" })).rejects.toThrow("Parameter verification failed");
});

test("a call about a server's task is made in the name of the node that its UPID names", () => {
  const log = "GET /nodes/{node}/tasks/{upid}/log";
  const knows = (node: string): boolean => node === "n1";
  expect(serverTaskNode(log, { node: "n2", upid: servers("n1") }, knows)).toBe("n1");
  expect(serverTaskNode(log, { node: "n2", upid: servers("s1") }, knows)).toBeUndefined();
  expect(serverTaskNode(log, { node: "n2", upid: upidOf("n1", 5) }, knows)).toBeUndefined();
  expect(serverTaskNode(log, { node: "n2" }, knows)).toBeUndefined();
  expect(serverTaskNode("POST /nodes/{node}/x", { upid: servers("n1") }, knows)).toBeUndefined();
});
