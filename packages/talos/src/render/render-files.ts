// The files of a cluster, as talosctl, kubectl and talhelper read them.
import { writeConfig } from "../config/config-text.ts";
import type { PatchedConfig } from "../patch/apply-patches.ts";
import { accessText } from "./access-text.ts";
import { dhcpHosts } from "./dhcp-hosts.ts";
import { haproxyConfig } from "./haproxy.ts";
import { baseOf, machineConfig, type RenderSource, roleConfig } from "./machine-config.ts";
import { talconfig } from "./talconfig.ts";
import { withOrigins } from "./with-origins.ts";

export interface RenderedFile {
  /** Below the folder that was asked for. */
  readonly path: string;
  readonly text: string;
}

export interface RenderRequest extends RenderSource {
  readonly now: number;
  /** Says behind every value of a configuration where it comes from. */
  readonly hasOrigins?: boolean;
}

/** Everything but talconfig.yaml, haproxy.cfg and dhcp-hosts.conf holds secrets. */
export async function renderFiles(request: RenderRequest): Promise<readonly RenderedFile[]> {
  const { machines, cluster, hasOrigins = false } = request;
  const text = (config: PatchedConfig): string =>
    hasOrigins ? withOrigins(config, baseOf(cluster)) : writeConfig(config.documents);
  return [
    { path: "controlplane.yaml", text: text(roleConfig(request, "controlplane")) },
    { path: "worker.yaml", text: text(roleConfig(request, "worker")) },
    ...machines.map((machine) => ({
      path: `nodes/${machine.name}.yaml`,
      text: text(machineConfig(request, machine)),
    })),
    { path: "talosconfig", text: await accessText("talosconfig", request) },
    { path: "kubeconfig", text: await accessText("kubeconfig", request) },
    { path: "talconfig.yaml", text: talconfig(request.cluster, machines, request.patches) },
    ...(request.cluster.endpoint.loadBalancer?.backendsManaged === "haproxy"
      ? [{ path: "haproxy.cfg", text: haproxyConfig(request.cluster, request) }]
      : []),
    ...(request.cluster.network.addressing === "dhcp"
      ? [{ path: "dhcp-hosts.conf", text: dhcpHosts(request.cluster, machines) }]
      : []),
  ];
}
