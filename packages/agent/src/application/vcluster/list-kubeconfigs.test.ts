import type { KeptCluster } from "@gpve/domain/vcluster/ports.ts";
import { expect, test } from "vitest";
import { listKubeconfigs } from "./list-kubeconfigs.ts";

const cluster = { name: "demo", tenant: "default" } as KeptCluster;
const { signal } = new AbortController();

test("a cluster that does not answer is named with what it said instead", async () => {
  const now = (): number => 0;
  const api = () => Promise.reject(new Error("connect ECONNREFUSED 100.80.0.2:6443"));
  await expect(listKubeconfigs({ api, clock: { now } }, cluster, signal)).rejects.toThrow(
    "virtual cluster demo does not tell its kubeconfigs: connect ECONNREFUSED 100.80.0.2:6443",
  );
});
