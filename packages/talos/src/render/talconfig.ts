// talconfig.yaml: the same cluster as a file of talhelper, for those who go on with it.
import { stringify } from "yaml";
import { endpointUrl, schedulesOnControlPlanes } from "../cluster/cluster-inputs.ts";
import type { Machine } from "../cluster/machine.ts";
import { isAsked } from "../cluster/machine-addresses.ts";
import { prefixLength } from "../cluster/networks.ts";
import type { Cluster } from "../cluster/cluster.ts";

const NO_KUBE_PROXY = "cluster:\n  proxy:\n    disabled: true\n";

/** Holds no secrets: talhelper keeps those in talsecret.yaml, which is `secrets export`'s format. */
export function talconfig(cluster: Cluster, machines: readonly Machine[]): string {
  const { versions, network, endpoint, addons, talos, controlPlane } = cluster;
  const version = (text: string): string => text.replace(/^v?/, "v");
  return stringify(
    {
      clusterName: cluster.metadata.name,
      talosVersion: version(versions.talos),
      kubernetesVersion: version(versions.kubernetes),
      endpoint: endpointUrl(cluster, machines),
      domain: network.dnsDomain,
      allowSchedulingOnControlPlanes: schedulesOnControlPlanes(cluster),
      ...(endpoint.extraSANs.length === 0
        ? {}
        : { additionalApiServerCertSans: endpoint.extraSANs, additionalMachineCertSans: endpoint.extraSANs }),
      clusterPodNets: network.podCIDRs,
      clusterSvcNets: network.serviceCIDRs,
      cniConfig: { name: addons.cni.type === "flannel" ? "flannel" : "none" },
      ...patchList(talos.patches.map(({ file }) => file)),
      nodes: machines.map((machine) => nodeEntry(cluster, machine)),
      controlPlane: {
        ...patchList(
          controlPlane.patches.map(({ file }) => file),
          // Cilium does its work; talhelper knows of no such thing.
          addons.cni.type === "cilium" ? [NO_KUBE_PROXY] : [],
        ),
        schematic: schematicOf(cluster, []),
      },
      worker: { schematic: schematicOf(cluster, []) },
    },
    // Nobody looks for what a *a1 means.
    { lineWidth: 0, aliasDuplicateObjects: false },
  );
}

function nodeEntry(cluster: Cluster, machine: Machine) {
  const { network, endpoint, image } = cluster;
  const isControlPlane = machine.role === "controlplane";
  const lengths = [network.nodeCIDR, network.nodeCIDR6 ?? network.nodeCIDR].map(prefixLength);
  const asked = machine.addresses.filter((address) => isAsked(network, address));
  const given = machine.addresses.flatMap((address, at) =>
    asked.includes(address) ? [] : [`${address}/${lengths[at]}`],
  );
  const ofControlPlane = new Set(isControlPlane ? cluster.controlPlane.patches.map(({ file }) => file) : []);
  return {
    hostname: machine.hostname,
    ipAddress: machine.addresses.join(","),
    controlPlane: isControlPlane,
    // Of another platform's installer the machine would lose its addresses at the next upgrade.
    machineSpec: { mode: image.platform, arch: machine.arch, secureboot: image.secureboot },
    // A disk image is installed already; the name matters for upgrades alone.
    installDisk: "/dev/sda",
    ...(network.dns.length === 0 ? {} : { nameservers: network.dns }),
    networkInterfaces: [
      {
        deviceSelector: { hardwareAddr: machine.mac.toLowerCase() },
        dhcp: asked.length > 0,
        ...(typeof network.mtu === "number" ? { mtu: network.mtu } : {}),
        ...(given.length === 0 ? {} : { addresses: given }),
        ...(isAsked(network, network.gateway)
          ? {}
          : {
              routes: [
                { network: network.gateway.includes(":") ? "::/0" : "0.0.0.0/0", gateway: network.gateway },
              ],
            }),
        ...(isControlPlane && endpoint.vip !== undefined ? { vip: { ip: endpoint.vip } } : {}),
      },
    ],
    ...(Object.keys(machine.labels).length === 0 ? {} : { nodeLabels: machine.labels }),
    ...(Object.keys(machine.taints).length === 0 ? {} : { nodeTaints: machine.taints }),
    ...patchList(machine.patchFiles.filter((file) => !ofControlPlane.has(file))),
    ...(machine.extensions.length === 0 ? {} : { schematic: schematicOf(cluster, machine.extensions) }),
  };
}

function schematicOf({ image }: Cluster, extensions: readonly string[]) {
  const officialExtensions = [...new Set([...image.extensions, ...extensions])].toSorted();
  return {
    customization: {
      ...(image.kernelArgs.length === 0 ? {} : { extraKernelArgs: image.kernelArgs }),
      ...(officialExtensions.length === 0 ? {} : { systemExtensions: { officialExtensions } }),
    },
  };
}

function patchList(files: readonly string[], texts: readonly string[] = []): { patches?: readonly string[] } {
  const patches = [...files.map((file) => `@${file}`), ...texts];
  return patches.length === 0 ? {} : { patches };
}
