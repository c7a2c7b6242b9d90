import { expect, test } from "vitest";
import type { KeptCluster } from "@gpve/domain/vcluster/ports.ts";
import type { ClusterApi } from "@gpve/domain/vcluster/vnode/ports.ts";
import { judgeObjects } from "./judge-objects.ts";

const cluster = { name: "demo" } as KeptCluster;
const { signal } = new AbortController();
const pod = { metadata: { name: "p", namespace: "a", resourceVersion: "7" }, spec: { hostPID: true } };
const volume = { metadata: { name: "v" }, spec: { hostPath: { path: "/" } } };

function answering(status: (path: string) => number): { api: ClusterApi; asked: unknown[] } {
  const asked: unknown[] = [];
  const api: ClusterApi = async (_cluster, { method, path, body }) => {
    if (method === "GET") return { status: 200, body: { items: path.endsWith("/pods") ? [pod] : [volume] } };
    asked.push({ path, body });
    return { status: status(path), body: { message: "level L1: no" } };
  };
  return { api, asked };
}

test("every pod and volume is judged as it is, and changes nothing", async () => {
  const { api, asked } = answering(() => 200);
  await judgeObjects(api, cluster, signal);
  expect(asked).toEqual([
    {
      path: "/api/v1/namespaces/a/pods/p?dryRun=All",
      body: {
        apiVersion: "v1",
        kind: "Pod",
        metadata: { name: "p", namespace: "a" },
        spec: { hostPID: true },
      },
    },
    {
      path: "/api/v1/persistentvolumes/v?dryRun=All",
      body: { apiVersion: "v1", kind: "PersistentVolume", ...volume },
    },
  ]);
});

test.each([
  ["a pod", "pods/p", "gets no workers while it has Pod a/p: level L1: no; delete it first"],
  ["a volume", "persistentvolumes/v", "gets no workers while it has PersistentVolume v"],
])("%s that the guard refuses is named", async (_what, refused, why) => {
  const { api } = answering((path) => (path.includes(refused) ? 422 : 200));
  await expect(judgeObjects(api, cluster, signal)).rejects.toThrow(why);
});

test("a pod that got its worker while it was judged is judged again as it is then; who never fits is refused", async () => {
  const placed = { ...pod, spec: { nodeName: "worker-1" } };
  const told: unknown[] = [];
  const api =
    (fits: (spec: object) => boolean): ClusterApi =>
    async (_cluster, { method, path, body }) => {
      if (method === "GET" && path.endsWith("/p")) return { status: 200, body: placed };
      if (method === "GET") return { status: 200, body: { items: path.endsWith("/pods") ? [pod] : [] } };
      const { spec } = body as typeof placed;
      told.push(spec);
      if (fits(spec)) return { status: 200, body: {} };
      return { status: 422, body: { message: "may not change nodeName" } };
    };
  await judgeObjects(
    api((spec) => "nodeName" in spec),
    cluster,
    signal,
  );
  expect(told).toEqual([pod.spec, placed.spec]);
  const never = judgeObjects(
    api(() => false),
    cluster,
    signal,
  );
  await expect(never).rejects.toThrow("may not change nodeName");
});

test("what has gone meanwhile is no matter; what cannot be listed is", async () => {
  await judgeObjects(answering(() => 404).api, cluster, signal);
  const silent: ClusterApi = async () => ({ status: 503, body: {} });
  await expect(judgeObjects(silent, cluster, signal)).rejects.toThrow("its API answers 503");
});
