// The whole configuration of one machine, and of each value where it comes from.
import { AppError, messageOf } from "@gpve/contracts/errors.ts";
import { platformNames } from "../cluster/cloud-controllers.ts";
import { clusterInputs } from "../cluster/cluster-inputs.ts";
import type { Machine } from "../cluster/machine.ts";
import { isAsked } from "../cluster/machine-addresses.ts";
import { prefixLength } from "../cluster/networks.ts";
import type { Cluster } from "../cluster/cluster.ts";
import { clusterDocuments } from "../config/cluster-documents.ts";
import { writeConfig } from "../config/config-text.ts";
import type { ConfigDocument } from "../config/document.ts";
import { generateConfig } from "../config/generate-config.ts";
import type { MachineRole } from "../config/inputs.ts";
import { nodeDocuments } from "../config/node-documents.ts";
import { refusalsOf } from "../config/refusals.ts";
import { contractOf, contracts } from "../contract/contracts.ts";
import { applyPatches, type Patch, type PatchedConfig } from "../patch/apply-patches.ts";
import { V1ALPHA1 } from "../patch/merge-rules.ts";
import type { SecretsBundle } from "../secrets/bundle.ts";

/** Texts of the patch files that cluster.yaml names, by their names there. */
export type PatchTexts = ReadonlyMap<string, string>;

export interface RenderSource {
  readonly cluster: Cluster;
  readonly secrets: SecretsBundle;
  readonly machines: readonly Machine[];
  readonly patches: PatchTexts;
}

/** Patches come in this order: the file's settings, talos.patches, the pool's or role's, the machine's own. */
export function machineConfig(source: RenderSource, machine: Machine): PatchedConfig {
  const { cluster } = source;
  const named = files(source, [...cluster.talos.patches.map(({ file }) => file), ...machine.patchFiles]);
  // Lists are appended to, and Kubernetes takes no node that has a taint twice.
  const isTaintedThere =
    machine.role === "worker" && named.some(({ text }) => text.includes("registerWithTaints"));
  const settings = nodeSettings(cluster, isTaintedThere ? { ...machine, taints: {} } : machine);
  const config = patched(source, machine.role, machine.extensions, [
    ...settingsPatch(source, cluster.talos.diskEncryption, machine.name),
    {
      source: `cluster.yaml, machine ${machine.name}`,
      text: writeConfig(nodeDocuments(contracts[cluster.versions.contract], settings)),
    },
    ...named,
  ]);
  refuseHostname(machine, config.documents);
  return config;
}

/** Patches were checked before: these are texts. */
interface HostnameParts {
  readonly kind?: string;
  readonly auto?: string;
  readonly hostname?: string;
  readonly machine?: { readonly network?: { readonly hostname?: string } };
}

/** Everything knows a machine by the name that the file gives it. */
function refuseHostname({ name, hostname }: Machine, documents: readonly ConfigDocument[]): void {
  const named = documents.flatMap((document): readonly string[] => {
    const { kind, auto, hostname: own, machine } = document as HostnameParts;
    if (kind === "HostnameConfig")
      return [auto === "off" ? (own ?? "none") : `${own ?? "none"}, auto: ${auto ?? "none"}`];
    return machine?.network?.hostname === undefined ? [] : [machine.network.hostname];
  });
  if (named.length === 1 && named[0] === hostname) return;
  const found = named.join(" and ") || "none";
  throw new AppError(
    "config.invalid",
    `with its patches ${name} has the hostname ${found}, and the file says ${hostname}`,
    { data: { finding: "hostname-patched" } },
  );
}

/** What all machines of a role share: what `talosctl gen config` calls controlplane.yaml and worker.yaml. */
export function roleConfig(source: RenderSource, role: MachineRole): PatchedConfig {
  const { talos, controlPlane } = source.cluster;
  const named = [...talos.patches, ...(role === "controlplane" ? controlPlane.patches : [])];
  // A passphrase of its own is what each machine has.
  const encryption = talos.diskEncryption === "static" ? "none" : talos.diskEncryption;
  const texts = files(
    source,
    named.map(({ file }) => file),
  );
  return patched(source, role, [], [...settingsPatch(source, encryption, role), ...texts]);
}

function settingsPatch(
  { cluster, secrets }: RenderSource,
  diskEncryption: string,
  machine: string,
): readonly Patch[] {
  const settings = { discoveryEndpoint: cluster.talos.discovery.endpoint ?? undefined, diskEncryption };
  const documents = clusterDocuments(contracts[cluster.versions.contract], settings, secrets, machine);
  return documents.length === 0 ? [] : [{ source: "cluster.yaml", text: writeConfig(documents) }];
}

function patched(
  { cluster, secrets, machines }: RenderSource,
  role: MachineRole,
  extensions: readonly string[],
  patches: readonly Patch[],
): PatchedConfig {
  const base: readonly ConfigDocument[] = generateConfig(
    role,
    clusterInputs(cluster, secrets, extensions, machines),
  );
  const config = whole(() => applyPatches(base, patches, baseOf(cluster)));
  refuseInstaller(cluster, config.documents);
  refuseRefused(cluster, config);
  return config;
}

/** The origin of what no patch and no setting has touched. */
export const baseOf = ({ versions }: Cluster): string => `Talos ${versions.contract}`;

function whole<T>(work: () => T): T {
  try {
    return work();
  } catch (err) {
    throw unreadable(messageOf(err), err);
  }
}

/** An installer of another platform takes the machine's addresses from it at its next upgrade. */
function refuseInstaller({ image }: Cluster, documents: readonly ConfigDocument[]): void {
  const text = JSON.stringify(documents);
  const [found] = /(?:[\w.-]+-installer(?:-secureboot)?|siderolabs\/installer)[/:][^"]*/.exec(text) ?? [];
  if (found === undefined || found.startsWith(`${image.platform}-installer`)) return;
  throw new AppError(
    "config.invalid",
    `a patch sets the installer ${found}, and the machines are of the platform ${image.platform}`,
    { data: { finding: "installer-of-another" } },
  );
}

/** What no machine would take is told before the first is asked. */
function refuseRefused({ versions }: Cluster, { documents, originOf }: PatchedConfig): void {
  const refused = refusalsOf(documents, contractOf(versions.talos).name);
  if (refused.length === 0) return;
  const told = refused.map(({ document, path, why }) => {
    const what = document === V1ALPHA1 ? path.join(".") : document;
    return `${what} (from ${originOf(document, path) ?? "a patch"}) ${why}`;
  });
  throw new AppError("config.invalid", told.join("; "), { data: { finding: "patch-refused" } });
}

function files({ patches }: RenderSource, names: readonly string[]): readonly Patch[] {
  return names.map((name) => {
    const text = patches.get(name);
    if (text === undefined) throw unreadable(`the patch ${name} is not there`);
    return { source: name, text };
  });
}

function unreadable(message: string, cause?: unknown): AppError {
  return new AppError("config.invalid", message, { cause, data: { finding: "patch-unreadable" } });
}

function nodeSettings(cluster: Cluster, machine: Machine) {
  const { network, endpoint } = cluster;
  const names = platformNames(cluster, machine);
  const networks = [network.nodeCIDR, ...(network.nodeCIDR6 === null ? [] : [network.nodeCIDR6])];
  return {
    hostname: machine.hostname,
    role: machine.role,
    mac: machine.mac,
    addresses: machine.addresses.flatMap((address, at) =>
      isAsked(network, address) ? [] : [`${address}/${prefixLength(networks[at] ?? network.nodeCIDR)}`],
    ),
    asksDhcp: machine.addresses.some((address) => isAsked(network, address)),
    gateway: isAsked(network, network.gateway) ? undefined : network.gateway,
    vips: [endpoint.vip, endpoint.front?.holds === true ? endpoint.front.vip : undefined].filter(
      (vip) => vip !== undefined,
    ),
    mtu: typeof network.mtu === "number" ? network.mtu : undefined,
    nameservers: network.dns,
    searchDomains: network.search,
    timeServers: network.ntp,
    nodeNetworks: networks,
    providerId: names?.id,
    labels: { ...names?.labels, ...machine.labels },
    taints: machine.taints,
  };
}
