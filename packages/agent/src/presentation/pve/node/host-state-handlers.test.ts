import { expect, test } from "vitest";
import type { RequestContext } from "@gpve/domain/request/context.ts";
import type { PveReply } from "@gpve/domain/request/handler.ts";
import { createHostStateHandlers, type HostStateDeps } from "./host-state-handlers.ts";

const ctx = { signal: new AbortController().signal } as RequestContext;
const node = "n1";
let lines = ["one", "two", "three"];
let entries = [
  { cursor: "c1", line: "one" },
  { cursor: "c2", line: "two" },
];
const asked: unknown[] = [];
const deps: HostStateDeps = {
  services: { list: async () => [{ service: "cron", state: "running" }] },
  log: {
    lines: async (query, onLine) => {
      asked.push(query);
      for (const line of lines) onLine(line);
    },
    entries: async (query) => {
      asked.push(query);
      return entries;
    },
  },
  guests: () => [
    { vmid: 100, nics: { tap100i0: { netin: 5, netout: 7 }, tap100i31: { netin: 0, netout: 1 } } },
    { vmid: 101 },
  ],
  packages: {
    versions: async () => [{ Package: "gpve" }],
    upgrades: async () => [],
    sources: () => ({ files: [] }),
  },
};
const handlers = createHostStateHandlers(deps);
const syslog = async (params: {
  start?: number;
  limit?: number;
  since?: string;
  until?: string;
  service?: string;
}) => {
  const answer = await handlers["GET /nodes/{node}/syslog"]?.({ node, ...params }, ctx);
  const { data, total } = answer as PveReply;
  return [(data as { n: number; t: string }[]).map(({ n, t }) => `${n} ${t}`), total];
};

test("the system log is numbered, cut as asked and counted as a whole", async () => {
  expect(await syslog({})).toEqual([["1 one", "2 two", "3 three"], 3]);
  expect(await syslog({ start: 1, limit: 1 })).toEqual([["2 two"], 3]);
  expect(await syslog({ limit: 0 })).toEqual([["1 one", "2 two", "3 three"], 3]);
  await syslog({ since: "2026-01-01", until: "2026-01-02", service: "cron" });
  expect(asked.at(-1)).toEqual({ since: "2026-01-01", until: "2026-01-02", service: "cron" });
  lines = [];
  expect(await syslog({})).toEqual([["1 no content"], 1]);
});

test("the journal comes between the cursors where reading goes on", async () => {
  const journal = handlers["GET /nodes/{node}/journal"];
  expect(await journal?.({ node, lastentries: 2 }, ctx)).toEqual(["c1", "one", "two", "c2"]);
  await journal?.({ node, since: 1, until: 2, lastentries: 0, startcursor: "a", endcursor: "b" }, ctx);
  expect(asked.at(-1)).toEqual({ since: 1, until: 2, after: "a", before: "b" });
  entries = [];
  expect(await journal?.({ node, startcursor: "c2" }, ctx)).toEqual(["c2", "c2"]);
  expect(await journal?.({ node }, ctx)).toEqual([]);
});

test("traffic is shown for every card of every running guest, in texts", () => {
  expect(handlers["GET /nodes/{node}/netstat"]?.({ node }, ctx)).toEqual([
    { vmid: "100", dev: "net0", in: "5", out: "7" },
    { vmid: "100", dev: "net31", in: "0", out: "1" },
  ]);
});

test("services and packages are handed on", async () => {
  expect(await handlers["GET /nodes/{node}/services"]?.({ node }, ctx)).toHaveLength(1);
  expect(
    await handlers["GET /nodes/{node}/services/{service}/state"]?.({ node, service: "cron" }, ctx),
  ).toEqual({
    service: "cron",
    state: "running",
  });
  expect(await handlers["GET /nodes/{node}/apt/versions"]?.({ node }, ctx)).toHaveLength(1);
  expect(handlers["GET /nodes/{node}/apt/repositories"]?.({ node }, ctx)).toEqual({ files: [] });
  expect(await handlers["GET /nodes/{node}/apt/update"]?.({ node }, ctx)).toEqual([]);
});
