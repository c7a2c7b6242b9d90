// From cluster.yaml to what a machine configuration is made from.
import { isIPv6 } from "node:net";
import { type ConfigInputs, configInputs } from "../config/inputs.ts";
import { contracts } from "../contract/contracts.ts";
import { schematicId } from "../image/schematic.ts";
import { SYSTEM_DEVICE } from "../plan/guest-config.ts";
import type { SecretsBundle } from "../secrets/bundle.ts";
import { readsTalosApi, waitsForController } from "./cloud-controllers.ts";
import type { Machine } from "./machine.ts";
import { machinesOf } from "./machines.ts";
import type { Cluster } from "./cluster.ts";

/** `extensions` are those of the machine's pool beside the cluster's own. */
export function clusterInputs(
  cluster: Cluster,
  secrets: SecretsBundle,
  extensions: readonly string[] = [],
  machines: readonly Machine[] = machinesOf(cluster),
): ConfigInputs {
  const { network, endpoint, talos, addons } = cluster;
  const host = endpointAddress(cluster, machines);
  return configInputs({
    contract: contracts[cluster.versions.contract],
    secrets,
    clusterName: cluster.metadata.name,
    endpoint: endpointUrl(cluster, machines),
    kubernetesVersion: cluster.versions.kubernetes,
    dnsDomain: network.dnsDomain,
    podSubnets: network.podCIDRs,
    serviceSubnets: network.serviceCIDRs,
    // The host of the endpoint is no name of the machines' own API by itself.
    extraSans: [
      ...new Set([
        host,
        // Whoever cannot ask for the name asks for the address.
        ...(endpoint.vip === undefined ? [] : [endpoint.vip]),
        ...(endpoint.front === undefined ? [] : [endpoint.front.vip]),
        ...endpoint.extraSANs,
      ]),
    ],
    allowSchedulingOnControlPlanes: schedulesOnControlPlanes(cluster),
    installImage: installerImage(cluster, extensions),
    // A disk's own image is installed already; an ISO must be told where to.
    installDisk: cluster.image.boot === "iso" ? SYSTEM_DEVICE : undefined,
    // Cilium comes as an add-on and does kube-proxy's work.
    cni: addons.cni.type === "flannel" ? { type: "flannel" } : { type: "none" },
    kubeProxy: addons.cni.type !== "cilium",
    registryMirrors: talos.registries.mirrors,
    discovery: talos.discovery.enabled,
    kubeSpan: talos.kubespan ? true : undefined,
    externalCloudProvider: waitsForController(cluster),
    talosApiAccess: readsTalosApi(cluster),
  });
}

/** What upgrades install: of the platform, or the machine would lose its addresses with it. */
export function installerImage(
  { image, versions }: Pick<Cluster, "image" | "versions">,
  extensions: readonly string[] = [],
): string {
  const id = schematicId({
    extensions: [...image.extensions, ...extensions],
    kernelArgs: image.kernelArgs,
  });
  const host = new URL(image.factory).host;
  const version = versions.talos.replace(/^v?/, "v");
  return `${host}/${image.platform}-installer${image.secureboot ? "-secureboot" : ""}/${id}:${version}`;
}

/** Without workers nothing could run anywhere else. */
export function schedulesOnControlPlanes({ controlPlane, pools }: Cluster): boolean {
  return controlPlane.schedulable || pools.every(({ count }) => count === 0);
}

export function endpointUrl(cluster: Cluster, machines: readonly Machine[]): string {
  const host = endpointAddress(cluster, machines);
  return `https://${isIPv6(host) ? `[${host}]` : host}:${cluster.endpoint.port}`;
}

/**
 * Without any of the three there is a single control plane, and a name beside a VIP leads to it: cluster-rules.ts has seen
 * to it.
 */
function endpointAddress({ endpoint }: Pick<Cluster, "endpoint">, machines: readonly Machine[]): string {
  return endpoint.dns ?? endpoint.vip ?? endpoint.loadBalancer?.address ?? machines[0]?.addresses[0] ?? "";
}
