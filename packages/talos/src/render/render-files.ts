// The files of a cluster, as talosctl, kubectl and talhelper read them.
import { createKubernetesAccess, writeKubeconfig } from "../access/kubeconfig.ts";
import { createTalosContext, writeTalosconfig } from "../access/talosconfig.ts";
import { endpointUrl } from "../cluster/cluster-inputs.ts";
import type { Machine } from "../cluster/machine.ts";
import { writeConfig } from "../config/config-text.ts";
import { machineConfig, type RenderSource, roleConfig } from "./machine-config.ts";
import { talconfig } from "./talconfig.ts";

export interface RenderedFile {
  /** Below the folder that was asked for. */
  readonly path: string;
  readonly text: string;
}

export interface RenderRequest extends RenderSource {
  readonly now: number;
}

/** Everything but talconfig.yaml holds secrets. */
export async function renderFiles(request: RenderRequest): Promise<readonly RenderedFile[]> {
  const { machines } = request;
  return [
    { path: "controlplane.yaml", text: writeConfig(roleConfig(request, "controlplane").documents) },
    { path: "worker.yaml", text: writeConfig(roleConfig(request, "worker").documents) },
    ...machines.map((machine) => ({
      path: `nodes/${machine.name}.yaml`,
      text: writeConfig(machineConfig(request, machine).documents),
    })),
    { path: "talosconfig", text: await talosconfigText(request) },
    { path: "kubeconfig", text: await kubeconfigText(request) },
    { path: "talconfig.yaml", text: talconfig(request.cluster, machines) },
  ];
}

export async function talosconfigText({ cluster, secrets, machines, now }: RenderRequest): Promise<string> {
  const addressOf = (machine: Machine): string => machine.addresses[0] ?? machine.name;
  const context = await createTalosContext(secrets, {
    endpoints: machines.filter(({ role }) => role === "controlplane").map(addressOf),
    nodes: machines.map(addressOf),
    now,
  });
  return writeTalosconfig(cluster.metadata.name, context);
}

export async function kubeconfigText({ cluster, secrets, machines, now }: RenderRequest): Promise<string> {
  const endpoint = endpointUrl(cluster, machines);
  const clusterName = cluster.metadata.name;
  return writeKubeconfig(await createKubernetesAccess(secrets, { clusterName, endpoint, now }));
}
