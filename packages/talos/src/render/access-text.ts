// talosconfig and kubeconfig, whole or merged into a person's own file.
import {
  createKubernetesAccess,
  type KubernetesAccess,
  mergeKubeconfig,
  writeKubeconfig,
} from "../access/kubeconfig.ts";
import {
  createTalosContext,
  mergeTalosconfig,
  type TalosContext,
  writeTalosconfig,
} from "../access/talosconfig.ts";
import { endpointUrl } from "../cluster/cluster-inputs.ts";
import type { ClusterLock } from "../folder/lock-file.ts";
import type { Machine } from "../cluster/machine.ts";
import type { RenderSource } from "./machine-config.ts";

export type AccessKind = "talosconfig" | "kubeconfig";

export interface AccessRequest extends Omit<RenderSource, "patches"> {
  readonly now: number;
  /** Knows of authorities that were replaced. */
  readonly lock?: Pick<ClusterLock, "formerAuthorities">;
}

export async function accessText(kind: AccessKind, request: AccessRequest): Promise<string> {
  return kind === "talosconfig"
    ? writeTalosconfig(request.cluster.metadata.name, await talosContext(request))
    : writeKubeconfig(await kubernetesAccess(request));
}

export async function mergedAccess(
  kind: AccessKind,
  existing: string,
  request: AccessRequest,
): Promise<{ readonly text: string; readonly contextName: string }> {
  const former = request.lock?.formerAuthorities ?? [];
  return kind === "talosconfig"
    ? mergeTalosconfig(existing, request.cluster.metadata.name, await talosContext(request), former)
    : mergeKubeconfig(existing, await kubernetesAccess(request), former);
}

function talosContext({ secrets, machines, now }: AccessRequest): Promise<TalosContext> {
  const addressOf = (machine: Machine): string => machine.addresses[0] ?? machine.name;
  return createTalosContext(secrets, {
    endpoints: machines.filter(({ role }) => role === "controlplane").map(addressOf),
    nodes: machines.map(addressOf),
    now,
  });
}

function kubernetesAccess({ cluster, secrets, machines, now }: AccessRequest): Promise<KubernetesAccess> {
  const endpoint = endpointUrl(cluster, machines);
  return createKubernetesAccess(secrets, { clusterName: cluster.metadata.name, endpoint, now });
}
