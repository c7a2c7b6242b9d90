import type { KeptCluster } from "@gpve/domain/vcluster/ports.ts";
import type { ClusterApi } from "@gpve/domain/vcluster/vnode/ports.ts";
import { ignore } from "@gpve/kit/background.ts";
import { type KubeCredentials, kubeCall, refused } from "./kube-api.ts";

/** The APIs of this node's clusters, spoken to with the platform's own credentials. */
export function clusterApi(credentials: (cluster: KeptCluster) => Promise<KubeCredentials>): ClusterApi {
  return async (cluster, request, signal) => {
    const { status, body } = await kubeCall(await credentials(cluster), request, signal);
    return { status, body: parsed(body) };
  };
}

/** What their API servers count, as Prometheus reads it. */
export function clusterMetrics(
  credentials: (cluster: KeptCluster) => Promise<KubeCredentials>,
): (cluster: KeptCluster, signal: AbortSignal) => Promise<string> {
  return async (cluster, signal) => {
    const { status, body } = await kubeCall(
      await credentials(cluster),
      { method: "GET", path: "/metrics" },
      signal,
    );
    if (status !== 200) throw refused("GET /metrics", status, body);
    return body;
  };
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch (err) {
    ignore(err, "some answers are plain words");
    return undefined;
  }
}
