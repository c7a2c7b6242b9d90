import { AppError } from "@gpve/contracts/errors.ts";
import { given } from "@gpve/contracts/given.ts";
import { calledOf, type KeptCluster } from "@gpve/domain/vcluster/ports.ts";
import type { ClusterApi, KubeRequest } from "@gpve/domain/vcluster/vnode/ports.ts";
import { type KeptVnode, podNetwork } from "@gpve/domain/vcluster/vnode/vnode.ts";

/** Before its kubelet does it, so that the addresses of its pods are those that its settings have. */
export async function registerNode(
  api: ClusterApi,
  cluster: KeptCluster,
  { name, slot, pool, labels: added, taints }: KeptVnode,
  signal: AbortSignal,
): Promise<void> {
  const podCIDR = podNetwork(cluster.spec.podCidr, slot);
  const labels = {
    ...added,
    "node.gpve.io/vcluster": calledOf(cluster),
    ...given({ "node.gpve.io/pool": pool }),
  };
  const body = {
    apiVersion: "v1",
    kind: "Node",
    metadata: { name, labels },
    spec: { podCIDR, podCIDRs: [podCIDR], ...given({ taints }) },
  };
  await expectStatus(api, cluster, { method: "POST", path: "/api/v1/nodes", body }, [201, 409], signal);
  // One that is coming back may have been cordoned.
  const open = {
    method: "PATCH",
    path: `/api/v1/nodes/${name}`,
    body: { metadata: { labels }, spec: { unschedulable: null } },
  } as const;
  await expectStatus(api, cluster, open, [200], signal);
}

/** Throws what the cluster said where it answers otherwise. */
export async function expectStatus(
  api: ClusterApi,
  cluster: KeptCluster,
  request: KubeRequest,
  statuses: readonly number[],
  signal: AbortSignal,
): Promise<void> {
  const { status, body } = await api(cluster, request, signal);
  if (statuses.includes(status)) return;
  const { message = "" } = (body ?? {}) as { message?: string };
  throw new AppError(
    "internal.error",
    `virtual cluster ${cluster.name} refused ${request.method} ${request.path} with ${status}: ${message}`,
  );
}
