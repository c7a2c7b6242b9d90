import { request } from "node:http";
import { text } from "node:stream/consumers";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { metricText } from "./exposition.ts";
import { createMetrics, type Metrics } from "./metrics.ts";
import { type MetricsListener, startMetricsListener } from "./metrics-listener.ts";

let metrics: Metrics;

beforeEach(() => {
  metrics = createMetrics({ version: "1.2.3" });
});

afterEach(() => metrics.close());

describe("metrics", () => {
  test("requests are counted by route, method and class of status", async () => {
    metrics.observeRequest("GET", "/api2/nodes/{node}", 200, 0.003);
    metrics.observeRequest("GET", "/api2/nodes/{node}", 204, 0.5);
    metrics.observeRequest("GET", "/api2/nodes/{node}", 595, 3);
    const shown = await metrics.render();
    expect(shown).toContain(
      'gpve_api_request_duration_seconds_bucket{le="0.005",method="GET",route="/api2/nodes/{node}",code="2xx"} 1',
    );
    expect(shown).toContain(
      'gpve_api_request_duration_seconds_count{method="GET",route="/api2/nodes/{node}",code="2xx"} 2',
    );
    expect(shown).toContain('route="/api2/nodes/{node}",code="5xx"} 1');
  });

  test("store operations, tasks and queues have their figures", async () => {
    metrics.observeStore("txn", true, 0.001);
    metrics.observeStore("txn", false, 0.1);
    const ends = [
      { state: "done", warnings: 0 },
      { state: "done", warnings: 0 },
      { state: "done", warnings: 2 },
      { state: "failed", warnings: 1 },
      { state: "cancelled", warnings: 0 },
    ] as const;
    for (const end of ends)
      for (const kind of ["started", "ended"])
        metrics.countTasks({ kind, operation: { type: "qmstart", ...end } });
    let depth = 4;
    metrics.watchQueue("server", () => depth);
    expect(await metrics.render()).toContain('gpve_operation_queue_depth{queue="server"} 4');
    depth = 0;
    const shown = await metrics.render();
    expect(shown).toContain('gpve_operation_queue_depth{queue="server"} 0');
    expect(shown).toContain('gpve_store_operation_duration_seconds_count{operation="txn",outcome="error"} 1');
    for (const [outcome, times] of Object.entries({ ok: 2, warnings: 1, error: 1, cancelled: 1 }))
      expect(shown).toContain(`gpve_task_outcomes_total{type="qmstart",outcome="${outcome}"} ${times}`);
    expect(shown).toContain('gpve_build_info{version="1.2.3"');
  });

  test("the process shows its memory, CPU, descriptors and a lag that starts near zero", async () => {
    await new Promise((resolve) => setTimeout(resolve, 120));
    const shown = await metrics.render();
    const value = (name: string): number =>
      Number(
        shown
          .split("\n")
          .find((l) => l.startsWith(name))
          ?.split(" ")[1],
      );
    expect(value("process_resident_memory_bytes ")).toBeGreaterThan(1e7);
    expect(value("nodejs_heap_size_used_bytes ")).toBeGreaterThan(1e6);
    expect(value("process_open_fds ")).toBeGreaterThan(2);
    expect(value("process_max_fds ")).toBeGreaterThan(100);
    expect(value("process_start_time_seconds ")).toBeGreaterThan(1.7e9);
    expect(value('process_cpu_seconds_total{mode="user"}')).toBeGreaterThan(0);
    expect(value('nodejs_eventloop_lag_seconds{quantile="0.5"}')).toBeLessThan(0.5);
    expect(value("nodejs_eventloop_utilization_ratio ")).toBeLessThanOrEqual(1);
  });

  test("every line is well-formed exposition text", async () => {
    metrics.addCollector(() => metricText("x", "gauge", "X.", [[{ a: 'q"\\\n' }, 1]]));
    metrics.observeRequest("GET", "unmatched", 404, 0.1);
    for (const line of (await metrics.render()).split("\n")) {
      expect(line).toMatch(
        /^$|^# (HELP|TYPE) [a-z_]+ |^[a-z_]+(\{([a-z_]+="([^"\\]|\\.)*",?)*\})? [-+0-9.eInfNa]+$/,
      );
    }
  });

  test("recording a request is cheap", () => {
    const rounds = 100_000;
    const start = process.cpuUsage().user / 1000;
    for (let i = 0; i < rounds; i++) metrics.observeRequest("GET", "/api2/cluster/resources", 200, 0.001);
    expect((process.cpuUsage().user / 1000 - start) / rounds).toBeLessThan(0.02);
  });
});

describe("exposition", () => {
  test("odd numbers have their spelling and nothing is shown without samples", () => {
    expect(metricText("x", "gauge", "X.", [])).toBe("");
    const values = [Number.NaN, Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY, 1.5];
    expect(
      metricText(
        "x",
        "counter",
        "X.",
        values.map((value) => [{}, value]),
      ),
    ).toBe("# HELP x X.\n# TYPE x counter\nx NaN\nx +Inf\nx -Inf\nx 1.5\n");
  });
});

describe("listener", () => {
  let listener: MetricsListener | undefined;
  const failures: string[] = [];
  const log = { error: (_fields: unknown, message: string) => void failures.push(message) };

  afterEach(async () => {
    await listener?.close();
    listener = undefined;
  });

  async function ask(url: string, method = "GET"): Promise<{ status: number; type: string; body: string }> {
    return new Promise((resolve, reject) => {
      request(url, { method, agent: false }, (response) => {
        const type = String(response.headers["content-type"]);
        text(response).then((body) => resolve({ status: response.statusCode ?? 0, type, body }), reject);
      })
        .on("error", reject)
        .end();
    });
  }

  test("answers scrapes, several at once, and nothing else", async () => {
    listener = await startMetricsListener({ address: "127.0.0.1:0", metrics, log });
    const { url } = listener;
    const [one, two] = await Promise.all([ask(url), ask(`${url}?x=1`)]);
    expect(one).toMatchObject({ status: 200, type: "text/plain; version=0.0.4; charset=utf-8" });
    expect(one.body).toContain("gpve_build_info");
    expect(two.status).toBe(200);
    expect((await ask(url, "HEAD")).body).toBe("");
    expect((await ask(url, "POST")).status).toBe(405);
    expect(await ask(`${url}/x`)).toMatchObject({ status: 404, body: "metrics are at /metrics\n" });
  });

  test("a collector that fails is an error answer and a log line, not a crash", async () => {
    metrics.addCollector(() => {
      throw new Error("broken");
    });
    listener = await startMetricsListener({ address: "127.0.0.1:0", path: "/m", metrics, log });
    expect((await ask(listener.url)).status).toBe(500);
    expect(failures).toEqual(["cannot render metrics"]);
  });

  test("listens on IPv6 and on all addresses", async () => {
    listener = await startMetricsListener({ address: ":0", metrics, log });
    expect(listener.url).toMatch(/^http:\/\/(\[::\]|0\.0\.0\.0):\d+\/metrics$/);
  });

  test.each(["9090", "host:99999", "a b:1", "[::1:2"])("refuses the address %s by name", async (address) => {
    await expect(startMetricsListener({ address, metrics, log })).rejects.toThrow("is not HOST:PORT");
  });

  test("says when the address is taken", async () => {
    listener = await startMetricsListener({ address: "127.0.0.1:0", metrics, log });
    const address = new URL(listener.url).host;
    await expect(startMetricsListener({ address, metrics, log })).rejects.toThrow("metrics cannot listen on");
  });
});
