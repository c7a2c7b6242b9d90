// talconfig.yaml: the same cluster as a file of talhelper, for those who go on with it.
import { stringify } from "yaml";
import { endpointUrl, schedulesOnControlPlanes } from "../cluster/cluster-inputs.ts";
import type { Machine } from "../cluster/machine.ts";
import { isAsked } from "../cluster/machine-addresses.ts";
import { prefixLength } from "../cluster/networks.ts";
import type { Cluster } from "../cluster/cluster.ts";
import type { PatchTexts } from "./machine-config.ts";
import {
  controlPlaneSettings,
  machineSettings,
  talhelperLeaves,
  talhelperSettings,
} from "./talhelper-settings.ts";

const FACTORY = "https://factory.talos.dev";
const NO_KUBE_PROXY = "cluster:\n  proxy:\n    disabled: true\n";

/**
 * Holds no secrets: talhelper keeps those in talsecret.yaml, which is `secrets export`'s format. Patches stand in it as texts: it is
 * written to another folder than theirs.
 */
export function talconfig(cluster: Cluster, machines: readonly Machine[], texts: PatchTexts): string {
  const { versions, network, endpoint, addons, talos, controlPlane, image } = cluster;
  const version = (text: string): string => text.replace(/^v?/, "v");
  // By itself talhelper names the endpoint's host alone.
  const named = endpoint.dns === undefined || endpoint.vip === undefined ? [] : [endpoint.vip];
  const sans = [...new Set([...named, ...endpoint.extraSANs])];
  const head = talhelperLeaves(cluster).map((line) => `# ${line}\n`);
  const file = stringify(
    {
      clusterName: cluster.metadata.name,
      talosVersion: version(versions.talos),
      kubernetesVersion: version(versions.kubernetes),
      endpoint: endpointUrl(cluster, machines),
      domain: network.dnsDomain,
      allowSchedulingOnControlPlanes: schedulesOnControlPlanes(cluster),
      ...(sans.length === 0 ? {} : { additionalApiServerCertSans: sans, additionalMachineCertSans: sans }),
      clusterPodNets: network.podCIDRs,
      clusterSvcNets: network.serviceCIDRs,
      cniConfig: { name: addons.cni.type === "flannel" ? "flannel" : "none" },
      ...(image.factory === FACTORY ? {} : { imageFactory: registryOf(image.factory) }),
      ...patchList([
        ...listed(talhelperSettings(cluster)),
        ...textsOf(
          talos.patches.map(({ file }) => file),
          texts,
        ),
      ]),
      nodes: machines.map((machine) => nodeEntry(cluster, machine, texts)),
      controlPlane: {
        ...patchList([
          ...listed(controlPlaneSettings(cluster)),
          ...textsOf(
            controlPlane.patches.map(({ file }) => file),
            texts,
          ),
          // Cilium does its work; talhelper knows of no such thing.
          ...(addons.cni.type === "cilium" ? [NO_KUBE_PROXY] : []),
        ]),
        schematic: schematicOf(cluster, []),
      },
      worker: { schematic: schematicOf(cluster, []) },
    },
    // Nobody looks for what a *a1 means.
    { lineWidth: 0, aliasDuplicateObjects: false },
  );
  return head.join("") + file;
}

function registryOf(factory: string) {
  const { protocol, host, pathname } = new URL(factory);
  return { registryURL: `${host}${pathname.replace(/\/$/, "")}`, protocol: protocol.replace(":", "") };
}

function nodeEntry(cluster: Cluster, machine: Machine, texts: PatchTexts) {
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
    ...patchList([
      ...listed(machineSettings(cluster, machine)),
      ...textsOf(
        machine.patchFiles.filter((file) => !ofControlPlane.has(file)),
        texts,
      ),
    ]),
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

const listed = (text: string | undefined): readonly string[] => (text === undefined ? [] : [text]);

function patchList(patches: readonly string[]): { patches?: readonly string[] } {
  return patches.length === 0 ? {} : { patches };
}

/** Their own $NAME and ${NAME} are no variables of talhelper's, which refuses those that are not set. */
function textsOf(files: readonly string[], texts: PatchTexts): readonly string[] {
  return files
    .map((file) => (texts.get(file) ?? "").replaceAll(/\$(?=[A-Za-z_{])/g, () => "$$"))
    .filter((text) => text !== "");
}
