// The guard judges what is made and changed from the day it stands. What came into a store before that (under an older
// Kubernetes, or with a backup) is judged before the first worker could run it: as a change that changes nothing.
import { AppError } from "@gpve/contracts/errors.ts";
import type { KeptCluster } from "@gpve/domain/vcluster/ports.ts";
import { GUARD_WORD } from "@gpve/domain/vcluster/vnode/guard.ts";
import type { ClusterApi } from "@gpve/domain/vcluster/vnode/ports.ts";

const MOST_ATTEMPTS = 5;
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
  const { name, namespace } = item.metadata;
  const place = namespace === undefined ? plural : `namespaces/${namespace}/${plural}`;
  const path = `/api/v1/${place}/${name}`;
  let message = "";
  let now: unknown = item;
  for (let attempt = 0; attempt < MOST_ATTEMPTS; attempt++) {
    // Whatever it was changed to meanwhile: that is judged by the guard itself.
    const { resourceVersion: _any, ...metadata } = (now as Item).metadata;
    const request = { ...(now as Item), apiVersion: "v1", kind, metadata };
    const dry = { method: "PUT", path: `${path}?dryRun=All`, body: request } as const;
    const { status, body } = await api(cluster, dry, signal);
    // 404: it has gone.
    if (status === 200 || status === 404) return;
    ({ message = `its API answers ${status}` } = (body ?? {}) as { readonly message?: string });
    if (message.includes(GUARD_WORD)) break;
    // Others work on it: a pod that got its worker in between cannot be what it was before.
    const again = await api(cluster, { method: "GET", path }, signal);
    if (again.status === 404) return;
    if (again.status === 200) now = again.body;
  }
  throw new AppError(
    "object.conflict",
    `virtual cluster ${cluster.name} gets no workers while it has ${kind} ${namespace === undefined ? name : `${namespace}/${name}`}: ${message.slice(0, 300)}; delete it first`,
  );
}
