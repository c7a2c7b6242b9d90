// A cluster.yaml for a person: what must be there, and a comment on what can be.
import { addressAt, contains, isNetwork, prefixLength } from "../cluster/networks.ts";
import { AppError } from "@gpve/contracts/errors.ts";
import { type Preset, type PresetName, presets } from "./presets.ts";

export interface InitAnswers {
  readonly preset: PresetName;
  readonly name: string;
  readonly provider: "gpve" | "pve-api" | "qm";
  /** undefined for qm alone. */
  readonly endpoint: string | undefined;
  readonly fingerprint: string | undefined;
  readonly nodes: readonly string[];
  /** Of disks. */
  readonly storage: string;
  readonly imageStorage: string;
  readonly network: string;
  /** undefined: the first address of the network. */
  readonly gateway: string | undefined;
  /** undefined: as the preset has it; "none": none. */
  readonly vip: string | undefined;
  readonly controlPlanes: number | undefined;
  readonly workers: number | undefined;
  readonly talosVersion: string;
  readonly secretsFile: string;
  readonly recipients: readonly string[];
}

/** The VIP lies just below the control planes. */
const VIP_OFFSET = 9;

export function initText(answers: InitAnswers): string {
  const preset = presets[answers.preset];
  const { network } = answers;
  if (!isNetwork(network)) {
    throw new AppError("request.invalid", `"${network}" is no network; write it as 192.168.1.0/24`);
  }
  const gateway = answers.gateway ?? addressAt(network, 1);
  const controlPlanes = answers.controlPlanes ?? preset.controlPlanes;
  const vip = chosenVip(answers, controlPlanes);
  const spread = controlPlanes > 1 && answers.nodes.length >= controlPlanes ? "required" : "preferred";
  const disks = text(answers.storage);
  return `# yaml-language-server: $schema=./cluster.schema.json
# A Talos cluster (${answers.preset}: ${preset.about}).
# Check it with: gpvectl talos validate. \`gpvectl talos schema > cluster.schema.json\` tells editors every key.
apiVersion: gpve.io/v1
kind: TalosCluster
metadata:
  # Machines are called ${answers.name}-cp-1, ${answers.name}-worker-1 and so on.
  name: ${text(answers.name)}

versions:
  talos: ${answers.talosVersion}
  # kubernetes: the recommended one of this Talos, unless said here

providers:
  - name: ${answers.provider}
    # gpve or pve-api (over the network), qm (on the Proxmox host itself)
    type: ${answers.provider}
${providerAccess(answers)}    nodes: [${answers.nodes.map(text).join(", ")}]
    # Where the image, the disks, the EFI variables and the cloud-init drives lie.
    storage: { image: ${text(answers.imageStorage)}, vm: ${disks}, efi: ${disks}, cloudinit: ${disks} }

placement:
  # required: never two control planes on one node
  spread: ${spread}

network:
  nodeCIDR: ${network}
  gateway: ${gateway}
  dns: [${gateway}]
  ntp: [time.cloudflare.com]
  bridge: vmbr0
  # vlan: 20
${insideNetworks(network)}  ipam:
    # Control planes get ${addressAt(network, offsets(network).controlPlane) ?? "these"} and up, workers ${addressAt(network, offsets(network).worker) ?? "those"} and up.
    controlPlaneOffset: ${offsets(network).controlPlane}
    workerOffset: ${offsets(network).worker}
    # Never given to a machine: addresses, and ranges such as your DHCP server's (FIRST-LAST).
    reserve: []

endpoint:${vip === undefined ? " {}" : ""}
  # Where the Kubernetes API is reached: vip (with dns, a name that leads to it, if there is one), loadBalancer: { address: … } or dns alone${vip === undefined ? "; without one, the control plane's address" : ""}.
${vip === undefined ? "" : `  vip: ${vip}\n`}
controlPlane:
  # 1, 3 or 5
  count: ${controlPlanes}
  machine: ${machine(preset.controlPlane)}

pools:
  - name: worker
    count: ${answers.workers ?? preset.workers}
    machine: ${machine(preset.worker)}
    # labels: { tier: web }
    # patches: [{ file: patches/worker.yaml }]

# What is different about one machine:
# nodes:
#   ${answers.name}-worker-1: { host: ${answers.nodes[0]}, machine: { memoryMiB: 32768 } }

addons:
${addons(preset)}
secrets:
  # Encrypted for these age keys; safe to commit.
  file: ${answers.secretsFile}
  recipients: [${answers.recipients.join(", ")}]

protect:
  # false allows \`destroy\`
  destroy: ${preset.protectsFromDestroy}
`;
}

/** What would be read as a number, or as more than one word, is put into quotes. */
function text(value: string): string {
  const isPlain = /^[A-Za-z][\w.-]*$/.test(value) && !/^(true|false|null|yes|no|on|off)$/i.test(value);
  return isPlain ? value : JSON.stringify(value);
}

/** By themselves pods and services have networks of IPv4. */
function insideNetworks(network: string): string {
  return network.includes(":")
    ? `  podCIDRs: ["fd00:10:244::/56"]\n  serviceCIDRs: ["fd00:10:96::/112"]\n`
    : "";
}

/** A lab needs nothing from elsewhere but its image. */
function addons({ hasAddons }: Preset): string {
  return hasAddons
    ? `  # cilium (a chart: helm renders it), flannel or none
  cni: { type: cilium }
  # The cloud controllers, metrics-server and Prometheus' kinds are on unless switched off here.
  # loadBalancer: { type: cilium, addresses: [10.0.0.200-10.0.0.220] }
  # csi: { proxmox: {}, default: proxmox }
  # Without a network: NAME-VERSION.yaml and .tgz in this folder.
  # offlineDir: ./addons
`
    : `  # cilium (a chart: helm renders it), flannel (Talos brings it) or none
  cni: { type: flannel }
  ccm: { proxmox: { enabled: false }, talos: { enabled: false } }
  metricsServer: false
  monitoring: { prometheusCRDs: false }
`;
}

function chosenVip(answers: InitAnswers, controlPlanes: number): string | undefined {
  if (answers.vip === "none") return undefined;
  if (answers.vip !== undefined) {
    if (contains(answers.network, answers.vip)) return answers.vip;
    throw new AppError("request.invalid", `the VIP ${answers.vip} is outside ${answers.network}`, {
      data: { finding: "vip-outside-network" },
    });
  }
  return presets[answers.preset].hasVip || controlPlanes > 1
    ? addressAt(answers.network, VIP_OFFSET)
    : undefined;
}

/** Small networks have no room for the usual distance. */
function offsets(network: string): { readonly controlPlane: number; readonly worker: number } {
  const isSmall = !network.includes(":") && prefixLength(network) > 26;
  return isSmall ? { controlPlane: 2, worker: 5 } : { controlPlane: 10, worker: 20 };
}

function providerAccess({ provider, endpoint, fingerprint }: InitAnswers): string {
  if (provider === "qm") return "";
  const variable = provider === "gpve" ? "GPVE_TOKEN" : "PVE_TOKEN";
  const trust =
    fingerprint === undefined
      ? "    # tls: { fingerprint: … } pins a certificate that no authority of yours has signed; or caFile\n"
      : `    tls: { fingerprint: "${fingerprint}" }\n`;
  return `    endpoint: ${endpoint}
    # USER@REALM!NAME=SECRET, out of the environment; or file:, sops:, age:
    tokenRef: { env: ${variable} }
${trust}`;
}

function machine({
  cores,
  memoryMiB,
  diskGiB,
}: {
  cores: number;
  memoryMiB: number;
  diskGiB: number;
}): string {
  return `{ cores: ${cores}, memoryMiB: ${memoryMiB}, diskGiB: ${diskGiB} }`;
}
