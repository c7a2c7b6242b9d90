// All metrics of one process. docs/reference/metrics.md lists them; a test keeps page and code equal.
import { Counter, Gauge, Histogram, Registry } from "prom-client";
import type { OperationRecord } from "../operation/record.ts";
import type { Outcome } from "../operation/states.ts";
import { metricText, type Sample } from "./exposition.ts";
import { processMetrics } from "./process-metrics.ts";

export interface Metrics {
  /**
   * `route` is the declared pattern with its prefix ("/api2/nodes/{node}/status"), or "unmatched": never what a
   * client typed, which could be anything.
   */
  observeRequest(method: string, route: string, status: number, seconds: number): void;
  observeStore(operation: string, ok: boolean, seconds: number): void;
  /** For an engine to tell what becomes of its operations. */
  readonly countTasks: (event: {
    readonly kind: string;
    readonly operation: Pick<OperationRecord, "type" | "state" | "warnings">;
  }) => void;
  /** One look at all running guests of a node. */
  observeMonitoring(seconds: number): void;
  /** Work waiting or running in a queue ("server", "agent"), asked at scrape time. */
  watchQueue(queue: string, depth: () => number): void;
  /** More metrics in text form, made at scrape time. */
  addCollector(collect: () => string): void;
  render(): Promise<string>;
  /** Stops the event-loop monitor. */
  close(): void;
}

export const METRICS_CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8";

const API_BUCKETS = [0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 10];
const STORE_BUCKETS = [0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.1, 0.5, 2, 10];
const MONITORING_BUCKETS = [0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 10];

const TASK_OUTCOMES = { done: "ok", failed: "error", cancelled: "cancelled" } as const;

export function createMetrics(options: { readonly version: string }): Metrics {
  const registry = new Registry();
  const own = { registers: [registry] };
  const requests = new Histogram({
    ...own,
    name: "gpve_api_request_duration_seconds",
    help: "Time to answer an API request.",
    labelNames: ["method", "route", "code"],
    buckets: API_BUCKETS,
  });
  const store = new Histogram({
    ...own,
    name: "gpve_store_operation_duration_seconds",
    help: "Time of one operation on the store.",
    labelNames: ["operation", "outcome"],
    buckets: STORE_BUCKETS,
  });
  const tasks = new Counter({
    ...own,
    name: "gpve_task_outcomes_total",
    help: "Tasks that ended.",
    labelNames: ["type", "outcome"],
  });
  const monitoring = new Histogram({
    ...own,
    name: "gpve_guest_monitoring_duration_seconds",
    help: "Time of one look at all running guests.",
    buckets: MONITORING_BUCKETS,
  });
  new Gauge({
    ...own,
    name: "gpve_build_info",
    help: "Always 1.",
    labelNames: ["version", "node_version"],
  }).set({ version: options.version, node_version: process.version }, 1);
  const queues = new Map<string, () => number>();
  const processes = processMetrics();
  const collectors: (() => string)[] = [
    () => processes.collect(),
    () =>
      metricText(
        "gpve_operation_queue_depth",
        "gauge",
        "Operations waiting or running.",
        [...queues].map(([queue, depth]): Sample => [{ queue }, depth()]),
      ),
  ];
  // Looking a labelled child up costs a sort and a hash of its labels; per request that is too much.
  const requestChildren = new Map<number, Map<string, RouteChildren>>();
  const storeChildren = new Map<string, Histogram.Internal<string>>();
  return {
    observeRequest: (method, route, status, seconds) => {
      const kind = Math.trunc(status / 100);
      // One map per step: a key put together for every request would have to be hashed for every request.
      const byRoute = remembered(requestChildren, kind, () => new Map<string, RouteChildren>());
      const byMethod = remembered(byRoute, route, (): RouteChildren => new Map());
      remembered(byMethod, method, () => requests.labels({ method, route, code: `${kind}xx` })).observe(
        seconds,
      );
    },
    observeStore: (operation, ok, seconds) => {
      const outcome = ok ? "ok" : "error";
      const key = `${outcome} ${operation}`;
      remembered(storeChildren, key, () => store.labels({ operation, outcome })).observe(seconds);
    },
    countTasks: ({ kind, operation: { type, state, warnings } }) => {
      if (kind !== "ended") return;
      const outcome = TASK_OUTCOMES[state as Outcome];
      tasks.inc({ type, outcome: outcome === "ok" && warnings > 0 ? "warnings" : outcome });
    },
    observeMonitoring: (seconds) => monitoring.observe(seconds),
    watchQueue: (queue, depth) => {
      queues.set(queue, depth);
    },
    addCollector: (collect) => {
      collectors.push(collect);
    },
    render: async () => `${await registry.metrics()}\n${collectors.map((collect) => collect()).join("")}`,
    close: () => processes.close(),
  };
}

type RouteChildren = Map<string, Histogram.Internal<string>>;

function remembered<K, T>(known: Map<K, T>, key: K, make: () => T): T {
  let child = known.get(key);
  if (child === undefined) {
    child = make();
    known.set(key, child);
  }
  return child;
}
