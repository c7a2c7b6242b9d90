// The guard judges what is made and changed from the day it stands. What came into a store before that (under an older
// Kubernetes, or with a backup) is judged before the first worker could run it: as a change that changes nothing.
import { AppError } from "@gpve/contracts/errors.ts";
import type { KeptCluster } from "@gpve/domain/vcluster/ports.ts";
import type { ClusterApi } from "@gpve/domain/vcluster/vnode/ports.ts";

const KINDS = [
  ["Pod", "pods"],
  ["PersistentVolume", "persistentvolumes"],
] as const;

interface Item {
  readonly metadata: {
    readonly name: string;
    readonly namespace?: string;
    readonly resourceVersion?: string;
  };
}

/** Throws for the first one that the guard would not let in. */
export async function judgeObjects(
  api: ClusterApi,
  cluster: KeptCluster,
  signal: AbortSignal,
): Promise<void> {
  for (const [kind, plural] of KINDS) {
    const { status, body } = await api(cluster, { method: "GET", path: `/api/v1/${plural}` }, signal);
    if (status !== 200)
      throw new AppError(
        "internal.error",
        `${plural} of virtual cluster ${cluster.name} cannot be judged before it gets workers: its API answers ${status}`,
      );
    for (const item of ((body ?? {}) as { readonly items?: readonly Item[] }).items ?? [])
      await judge(api, cluster, { kind, plural, item }, signal);
  }
}

async function judge(
  api: ClusterApi,
  cluster: KeptCluster,
  { kind, plural, item }: { readonly kind: string; readonly plural: string; readonly item: Item },
  signal: AbortSignal,
): Promise<void> {
  // Whatever it was changed to meanwhile: that is judged by the guard itself.
  const { resourceVersion: _any, ...metadata } = item.metadata;
  const { name, namespace } = metadata;
  const place = namespace === undefined ? plural : `namespaces/${namespace}/${plural}`;
  const request = { ...item, apiVersion: "v1", kind, metadata };
  const path = `/api/v1/${place}/${name}?dryRun=All`;
  const { status, body } = await api(cluster, { method: "PUT", path, body: request }, signal);
  // 404: it has gone.
  if (status === 200 || status === 404) return;
  const { message = `its API answers ${status}` } = (body ?? {}) as { readonly message?: string };
  throw new AppError(
    "object.conflict",
    `virtual cluster ${cluster.name} gets no workers while it has ${kind} ${namespace === undefined ? name : `${namespace}/${name}`}: ${message.slice(0, 300)}; delete it first`,
  );
}
