import { describe, expect, test } from "vitest";
import { ClusterFigures, podCounts, requestFigures } from "./cluster-figures.ts";
import { FakeClock } from "@gpve/kit/testing/fake-clock.ts";
import type { KeptCluster } from "@gpve/domain/vcluster/ports.ts";
import type { Logger } from "@gpve/kit/logger.ts";

describe("figures of a cluster", () => {
  test("requests are counted by verb, over all resources", () => {
    const line = (what: string, labels: string, value: string) =>
      `apiserver_request_duration_seconds_${what}{component="apiserver",${labels}} ${value}`;
    const text = [
      "# TYPE apiserver_request_duration_seconds histogram",
      line("bucket", 'resource="pods",verb="LIST",le="0.1"', "7"),
      line("bucket", 'resource="nodes",verb="LIST",le="0.1"', "1"),
      line("bucket", 'resource="pods",verb="LIST",le="1.25"', "8"),
      line("bucket", 'resource="pods",verb="LIST",le="1.0"', "9"),
      line("bucket", 'resource="pods",verb="LIST",le="+Inf"', "10"),
      line("sum", 'resource="pods",scope="cluster",verb="LIST",version="v1"', "0.5"),
      line("count", 'resource="pods",scope="cluster",verb="LIST",version="v1"', "10"),
      line("sum", 'resource="nodes",scope="cluster",verb="LIST",version="v1"', "1.5e-1"),
      line("count", 'resource="nodes",scope="cluster",verb="LIST",version="v1"', "2"),
      line("count", 'resource="pods",scope="namespace",verb="POST",version="v1"', "3"),
      "",
    ].join("\n");
    expect(requestFigures(text)).toEqual({
      list: { count: 12, seconds: 0.65, buckets: { "0.1": 8, "1": 9 } },
      post: { count: 3, seconds: 0, buckets: {} },
    });
  });

  test("pods are counted by namespace", () => {
    const items = ["a", "b", "a"].map((namespace) => ({ metadata: { namespace } }));
    expect(podCounts(JSON.stringify({ items }))).toEqual({ a: 2, b: 1 });
    expect(podCounts("{}")).toEqual({});
  });

  test("who sleeps is not asked, and who does not answer has none", async () => {
    const asked: string[] = [];
    const cluster = (name: string, more: object) =>
      ({ name, phase: "Running", isWanted: true, ...more }) as unknown as KeptCluster;
    const figures = new ClusterFigures({
      host: {
        list: () => [cluster("awake", {}), cluster("asleep", { asleep: "cold" })],
        isUp: () => true,
      },
      credentials: async ({ name }) => {
        asked.push(name);
        throw new Error("no answer");
      },
      clock: new FakeClock(),
      log: { debug: () => undefined } as unknown as Logger,
    });
    await figures.look();
    expect([asked, figures.of("awake")]).toEqual([["awake"], {}]);
    const following = figures.follow();
    figures.close();
    await following;
  });

  test("of one that fell asleep its pods are told, and for some minutes its requests", async () => {
    const clock = new FakeClock();
    let asleep: object = {};
    const figures = new ClusterFigures({
      host: {
        list: () => [{ name: "demo", phase: "Running", isWanted: true, ...asleep } as unknown as KeptCluster],
        isUp: () => true,
      },
      credentials: async () => ({}) as never,
      call: async (_to, { path }) => ({
        status: 200,
        body:
          path === "/metrics"
            ? 'apiserver_request_duration_seconds_count{verb="LIST"} 2\n'
            : '{"items":[{"metadata":{"namespace":"a"}}]}',
      }),
      clock,
      log: { debug: () => undefined } as unknown as Logger,
    });
    await figures.look();
    asleep = { asleep: "cold" };
    const told = { pods: { a: 1 }, requests: { list: { count: 2, seconds: 0, buckets: {} } } };
    await clock.advance(240_000);
    await figures.look();
    expect(figures.of("demo")).toEqual(told);
    await clock.advance(61_000);
    await figures.look();
    expect(figures.of("demo")).toEqual({ pods: { a: 1 } });
    asleep = {};
    await figures.look();
    expect(figures.of("demo")).toEqual(told);
  });
});
