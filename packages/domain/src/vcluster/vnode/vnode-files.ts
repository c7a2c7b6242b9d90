// What the programs of a worker read: pure, from the worker and where its files lie. JSON is YAML.
import { given } from "@gpve/contracts/given.ts";
import { dnsServiceAddress } from "../certificates.ts";
import type { VirtualClusterSpec } from "../vcluster-spec.ts";
import { type KataRuntime, kataRuntimes } from "./kata.ts";
import type { VnodeSize } from "./vnode.ts";

export interface VnodePlace {
  /** Its name in the cluster. */
  readonly name: string;
  readonly address: string;
  /** Of its pods. */
  readonly podNetwork: string;
  /** How long packets can be; undefined = as everywhere. */
  readonly mtu?: number;
  /** A file of its own settings and keys. */
  readonly file: (name: string) => string;
  /** containerd's own folder. */
  readonly containers: string;
  /** As kubelet names it: below the root of every hierarchy. */
  readonly cgroup: string;
  /** Folder of the plugins for networks of pods. */
  readonly plugins: string;
  readonly runc: string;
  /** Level L2: what runs its pods instead of runc. */
  readonly kata?: KataRuntime;
  readonly pauseImage: string;
  /** Folder with descriptions of the devices that are its own; absent: it has none. */
  readonly devices?: string;
}

/** What the host is, as far as a worker's settings depend on it. */
export interface VnodeHostFacts {
  readonly cgroupVersion: 1 | 2;
  readonly cpus: number;
  readonly memoryBytes: number;
  /** Without CAP_SYS_RESOURCE nobody may lower the score by which the kernel chooses whom to kill. */
  readonly mayLowerOomScore: boolean;
  /** Whether frames on a bridge go through the rules for packets: else replies of a neighbour are not translated back. */
  readonly filtersBridges: boolean;
}

/** In the worker's own view of /run. */
export const CONTAINERD_SOCKET = "/run/containerd/containerd.sock";

export function containerdConfig(place: VnodePlace, host: VnodeHostFacts): string {
  const text = (value: string): string => JSON.stringify(value);
  const runtime = "plugins.'io.containerd.cri.v1.runtime'";
  return [
    "version = 3",
    `root = ${text(place.containers)}`,
    'state = "/run/containerd"',
    "[grpc]",
    `  address = ${text(CONTAINERD_SOCKET)}`,
    "[plugins.'io.containerd.internal.v1.opt']",
    `  path = ${text(`${place.containers}/opt`)}`,
    "[plugins.'io.containerd.cri.v1.images'.pinned_images]",
    `  sandbox = ${text(place.pauseImage)}`,
    `[${runtime}]`,
    `  restrict_oom_score_adj = ${!host.mayLowerOomScore}`,
    // Else it would look into the node's own folders. That it looks at all is no setting any more from 2.4 on.
    ...(place.devices === undefined ? [] : [`  cdi_spec_dirs = [${text(place.devices)}]`]),
    `[${runtime}.cni]`,
    `  bin_dirs = [${text(place.plugins)}]`,
    `  conf_dir = ${text(place.file("net.d"))}`,
    ...(place.kata === undefined
      ? runcRuntime(`${runtime}.containerd`, place)
      : kataRuntimes(`${runtime}.containerd`, place.kata)),
    "",
  ].join("\n");
}

function runcRuntime(section: string, { runc, cgroup }: VnodePlace): readonly string[] {
  return [
    `[${section}.runtimes.runc]`,
    '  runtime_type = "io.containerd.runc.v2"',
    `[${section}.runtimes.runc.options]`,
    `  BinaryName = ${JSON.stringify(runc)}`,
    // Else they would end with containerd, and their pods with them.
    `  ShimCgroup = ${JSON.stringify(`${cgroup}/shims`)}`,
  ];
}

/** Pods keep their own addresses towards each other; who masks them towards others is `workerRules`. */
export function podNetworkConfig(place: VnodePlace): string {
  return json({
    cniVersion: "1.0.0",
    name: "pods",
    plugins: [
      {
        type: "bridge",
        bridge: "cni0",
        isGateway: true,
        hairpinMode: true,
        ...given({ mtu: place.mtu }),
        ipam: {
          type: "host-local",
          ranges: [[{ subnet: place.podNetwork }]],
          routes: [{ dst: "0.0.0.0/0" }],
        },
      },
      { type: "portmap", capabilities: { portMappings: true }, backend: "nftables" },
    ],
  });
}

export function kubeletConfig(
  { serviceCidr, dnsDomain }: Pick<VirtualClusterSpec, "serviceCidr" | "dnsDomain">,
  place: VnodePlace,
  size: VnodeSize,
  host: VnodeHostFacts,
): string {
  return json({
    apiVersion: "kubelet.config.k8s.io/v1beta1",
    kind: "KubeletConfiguration",
    cgroupDriver: "cgroupfs",
    cgroupRoot: place.cgroup,
    cgroupsPerQOS: true,
    enforceNodeAllocatable: ["pods"],
    ...(host.cgroupVersion === 1 ? { failCgroupV1: false } : {}),
    failSwapOn: false,
    containerRuntimeEndpoint: `unix://${CONTAINERD_SOCKET}`,
    clusterDNS: [dnsServiceAddress(serviceCidr)],
    clusterDomain: dnsDomain,
    resolvConf: place.file("resolv.conf"),
    authentication: {
      anonymous: { enabled: false },
      webhook: { enabled: true },
      x509: { clientCAFile: place.file("ca.crt") },
    },
    authorization: { mode: "Webhook" },
    tlsCertFile: place.file("kubelet-serving.crt"),
    tlsPrivateKeyFile: place.file("kubelet-serving.key"),
    // Its handlers would show this machine's /var/log and profiles to whoever administers the cluster.
    enableSystemLogHandler: false,
    enableDebugFlagsHandler: false,
    enableProfilingHandler: false,
    // The worker sees those that Kubernetes wants; the host's own stay.
    protectKernelDefaults: true,
    makeIPTablesUtilChains: false,
    seccompDefault: true,
    podPidsLimit: 4096,
    maxPods: 110,
    // What is on this disk and in this memory is mostly others': only what is nearly nothing is pressure. Of the disk it is a
    // share: nothing bounds what pods write, and the node's own programs want room on a big one too.
    evictionHard: {
      "memory.available": "50Mi",
      "nodefs.available": "3%",
      "imagefs.available": "3%",
      "nodefs.inodesFree": "1%",
    },
    imageGCHighThresholdPercent: 95,
    imageGCLowThresholdPercent: 90,
    // A kubelet counts the whole machine: what is not the worker's is reserved, so that allocatable is its size.
    systemReserved: {
      cpu: `${Math.max(0, Math.round((host.cpus - size.cpus) * 1000))}m`,
      memory: String(Math.max(0, host.memoryBytes - size.memoryBytes - EVICTION_BYTES)),
    },
  });
}

/** What `evictionHard` takes off by itself. */
const EVICTION_BYTES = 50 * 2 ** 20;

export function kubeProxyConfig(
  { podCidr }: Pick<VirtualClusterSpec, "podCidr">,
  place: VnodePlace,
  host: VnodeHostFacts,
): string {
  return json({
    apiVersion: "kubeproxy.config.k8s.io/v1alpha1",
    kind: "KubeProxyConfiguration",
    mode: "nftables",
    clusterCIDR: podCidr,
    clientConnection: { kubeconfig: place.file("kube-proxy.kubeconfig") },
    hostnameOverride: place.name,
    // Those of the machine can be set by nobody in a network namespace.
    conntrack: { maxPerCore: 0, min: 0, tcpEstablishedTimeout: "0s", tcpCloseWaitTimeout: "0s" },
    healthzBindAddress: "127.0.0.1:10256",
    metricsBindAddress: "127.0.0.1:10249",
    nftables: { masqueradeAll: !host.filtersBridges },
  });
}

/** Packets of pods that leave the cluster's pods bear the worker's address, which others know the way to. */
export function workerRules(podCidr: string): string {
  return [
    "table ip gpve_worker",
    "delete table ip gpve_worker",
    "table ip gpve_worker {",
    "  chain postrouting {",
    "    type nat hook postrouting priority 110; policy accept;",
    `    ip saddr ${podCidr} ip daddr != ${podCidr} oifname "eth0" masquerade`,
    "  }",
    "}",
    "",
  ].join("\n");
}

function json(value: unknown): string {
  return `${JSON.stringify(value, undefined, 2)}\n`;
}
