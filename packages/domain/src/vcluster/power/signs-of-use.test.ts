import { expect, test } from "vitest";
import { openSessions, requestsOfPods, unfinishedJobs } from "./signs-of-use.ts";

const NOW = Date.parse("2026-11-18T01:00:00Z");

test("a Job is one until it has ended, also while nothing of it runs, but not while it is suspended", () => {
  const job = (name: string, more: object = {}) => ({ metadata: { namespace: "default", name }, ...more });
  const ended = (type: string) => ({ status: { conditions: [{ type, status: "True" }] } });
  const items = [
    job("done", ended("Complete")),
    job("broken", ended("Failed")),
    job("later", { spec: { suspend: true } }),
    job("again", { status: { failed: 1, conditions: [{ type: "Failed", status: "False" }] } }),
  ];
  expect(unfinishedJobs({ items }, NOW)).toEqual({ what: "Job default/again", at: NOW });
  const many = ["a", "b", "c", "d", "e"].map((name) => job(name));
  expect(unfinishedJobs({ items: many }, NOW)?.what).toBe("Jobs default/a, default/b, default/c and 2 more");
  expect(unfinishedJobs({ items: items.slice(0, 3) }, NOW)).toBeUndefined();
  expect(unfinishedJobs(undefined, NOW)).toBeUndefined();
});

test("a session is what is open and no watch", () => {
  const row = (subresource: string, verb: string, value: number): string =>
    `apiserver_longrunning_requests{component="apiserver",group="",resource="pods",scope="resource",subresource="${subresource}",verb="${verb}",version="v1"} ${value}`;
  const none = [
    "# TYPE apiserver_longrunning_requests gauge",
    row("", "WATCH", 40),
    row("exec", "CONNECT", 0),
  ];
  expect(openSessions(none.join("\n"), NOW)).toBeUndefined();
  const some = [...none, row("log", "GET", 2), row("portforward", "CONNECT", 1)].join("\n");
  expect(openSessions(some, NOW)).toEqual({ what: "open sessions (2 logs, 1 port-forward)", at: NOW });
});

test("a pod asks by the account of a tenant, and lately", () => {
  const line = (username: string, secondsAgo: number): string =>
    JSON.stringify({ stageTimestamp: new Date(NOW - secondsAgo * 1_000).toISOString(), user: { username } });
  const lines = [
    line("system:serviceaccount:old:operator", 900),
    line("system:serviceaccount:shop:operator", 50),
    line("system:serviceaccount:kube-system:coredns", 40),
    line("system:serviceaccount:shop:web", 30),
    line("somebody@pve", 20),
    '{"kind":"Event","stag',
    "7",
  ];
  expect(requestsOfPods(lines, NOW - 60_000)).toEqual({
    what: "requests of ServiceAccount shop/operator, shop/web",
    at: NOW - 30_000,
  });
  expect(requestsOfPods(lines, NOW - 25_000)).toBeUndefined();
  expect(requestsOfPods([], 0)).toBeUndefined();
});
