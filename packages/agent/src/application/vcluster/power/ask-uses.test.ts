import type { KeptCluster } from "@gpve/domain/vcluster/ports.ts";
import { readVirtualClusterSpec } from "@gpve/domain/vcluster/vcluster-spec.ts";
import { FakeClock } from "@gpve/kit/testing/fake-clock.ts";
import { expect, test } from "vitest";
import { askUses } from "./ask-uses.ts";

test("a cluster is asked for what its policy names, and for nothing else", async () => {
  const clock = new FakeClock(1_000_000);
  const asked: string[] = [];
  let status = 200;
  const ask = askUses({
    api: (_cluster, { path }) => {
      asked.push(path);
      return Promise.resolve({ status, body: { items: [{ metadata: { namespace: "a", name: "b" } }] } });
    },
    metrics: () => {
      asked.push("metrics");
      return Promise.resolve('apiserver_longrunning_requests{subresource="exec",verb="CONNECT"} 1');
    },
    auditLines: () => {
      asked.push("audit");
      const user = { username: "system:serviceaccount:shop:web" };
      return [JSON.stringify({ stageTimestamp: new Date(clock.now() - 1_000).toISOString(), user })];
    },
    clock,
  });
  const uses = async (...keepAwake: string[]) => {
    const cluster = { name: "demo", spec: readVirtualClusterSpec({ sleep: { keepAwake } }) } as KeptCluster;
    const signs = await ask(cluster, new AbortController().signal);
    return signs.map(({ what }) => what);
  };
  expect(await uses()).toEqual([]);
  expect(asked).toEqual([]);
  expect(await uses("jobs")).toEqual(["Job a/b"]);
  expect(asked).toEqual(["/apis/batch/v1/jobs"]);
  expect(await uses("pods", "sessions")).toEqual([
    "open sessions (1 exec)",
    "requests of ServiceAccount shop/web",
  ]);
  expect(asked.slice(1)).toEqual(["metrics", "audit"]);
  status = 403;
  await expect(uses("jobs")).rejects.toThrow("answered 403");
});
