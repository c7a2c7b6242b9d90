// A server that knows one node, which says yes to every virtual cluster unless told otherwise.
import type { Quota } from "@gpve/domain/quota/quota.ts";
import type { RequestContext } from "@gpve/domain/request/context.ts";
import { vclusterCollection } from "@gpve/domain/vcluster/vcluster-record.ts";
import { FakeClock } from "@gpve/kit/testing/fake-clock.ts";
import { openSqliteStore } from "@gpve/store/sqlite/sqlite-store.ts";
import { onTestFinished } from "vitest";
import { cacheReader } from "../application/v1/adapter.ts";
import { clusterDecisionsDef } from "../application/vcluster/placing/cluster-decisions.ts";
import { clusterKeyFor } from "../application/vcluster/cluster-names.ts";
import { VirtualClusters } from "../application/vcluster/virtual-clusters.ts";
import { boardPlacer } from "./board-placer.ts";
import { quietWatch } from "./quiet-kinds.ts";
import { openQuotaServer, putTenants, reportOf } from "./quota-world.ts";

export const UPID = "UPID:n1:00000001:00000001:00000001:vccreate:demo:root@pam:";
export const quota: Quota = { name: "a", tenant: "a", limits: { vcCount: 2 }, requests: {} };
export const context = (requestId: string) =>
  ({ requestId, signal: new AbortController().signal }) as unknown as RequestContext;

/** It ends with the test. */
export async function vclusterWorld() {
  const clock = new FakeClock(1_000_000);
  const node = { node: "n1", call: () => Promise.reject(new Error("not asked")) };
  const server = await openQuotaServer(openSqliteStore({ path: ":memory:" }), { owner: "s1", clock, node });
  onTestFinished(() => server.close());
  await putTenants(server.records, [quota], ["a", "a/b", "b"]);
  server.board.accept(reportOf([], clock.now()));
  const asked: { route: string; params: unknown }[] = [];
  let answer: () => unknown = () => UPID;
  let volumes: readonly object[] = [];
  let task: () => Promise<void> = async () => undefined;
  let workers = 0;
  const clusters = new VirtualClusters({
    ...quietWatch,
    placer: boardPlacer(server),
    records: server.records,
    board: server.board,
    clock,
    quotas: server.quotas.view,
    taskEnd: () => task(),
    calls: {
      call: async (_node, route, params) => {
        const data = answer();
        if (route.endsWith("/volumes")) return { data: volumes } as never;
        if (route.startsWith("GET ") && route.endsWith("/scale")) return { data: { workers } } as never;
        asked.push({ route, params });
        return { data } as never;
      },
    },
  });
  let requests = 0;
  const create = (name: string, namespace?: string, spec: object = {}) =>
    clusters.create({ name, namespace, spec: spec as Record<string, unknown> }, context(`r${++requests}`));
  const names = () =>
    server.records
      .collection(vclusterCollection)
      .list()
      .map(({ value }) => value.name)
      .toSorted();
  const decisions = () => server.records.collection(clusterDecisionsDef).list();
  const key = (name: string, tenant = "b") => clusterKeyFor(cacheReader(server.records), { tenant, name });
  const answers = (say: () => unknown) => {
    answer = say;
  };
  /** As its node has them now, whatever it has told. */
  const hasVolumes = (...now: readonly string[]) => {
    volumes = now.map((volume) => ({ vnode: "worker-1", name: volume }));
  };
  /** The end of tasks from now on, and how many workers its node has then. */
  const ends = (say: () => Promise<void>, has: number) => {
    [task, workers] = [say, has];
  };
  return { ...server, ends, clusters, create, names, decisions, key, asked, answers, hasVolumes, clock };
}
