// Every add-on, in the order in which they are installed: each may need those above it.
import type { Cluster } from "../cluster/cluster.ts";
import { withEarlyPods, withInitialization, withKubeletTls } from "./adjust-objects.ts";
import type { AddonKind } from "./addon-kind.ts";
import {
  accessObjects,
  argoObjects,
  fluxObjects,
  loadBalancerObjects,
  monitorObjects,
  networkPolicyObjects,
  podSecurityObjects,
} from "./own-objects.ts";
import { storageClass } from "./storage-classes.ts";

const GITHUB = "https://github.com";
const RAW = "https://raw.githubusercontent.com";

const isCilium = ({ addons }: Cluster): boolean => addons.cni.type === "cilium";
const usesGateway = ({ addons }: Cluster): boolean => addons.ingress.type === "gateway";

/** As Talos needs it: its own cgroups, KubePrism instead of a service address, no kube-proxy. */
function ciliumValues(cluster: Cluster): Readonly<Record<string, unknown>> {
  const { addons, network } = cluster;
  const agent =
    "CHOWN KILL NET_ADMIN NET_RAW IPC_LOCK SYS_ADMIN SYS_RESOURCE DAC_OVERRIDE FOWNER SETGID SETUID";
  return {
    ipam: { mode: "kubernetes" },
    kubeProxyReplacement: true,
    k8sServiceHost: "localhost",
    k8sServicePort: 7445,
    cgroup: { autoMount: { enabled: false }, hostRoot: "/sys/fs/cgroup" },
    securityContext: {
      capabilities: {
        ciliumAgent: agent.split(" "),
        cleanCiliumState: ["NET_ADMIN", "SYS_ADMIN", "SYS_RESOURCE"],
      },
    },
    // Certificates made while rendering would be others at every rendering.
    hubble: { tls: { auto: { method: "cronJob" } } },
    ipv6: { enabled: network.nodeCIDR6 !== null || network.nodeCIDR.includes(":") },
    ...(typeof network.mtu === "number" ? { MTU: network.mtu } : {}),
    ...(addons.loadBalancer.type === "cilium"
      ? { l2announcements: { enabled: true }, externalIPs: { enabled: true } }
      : {}),
    ...(usesGateway(cluster) ? { gatewayAPI: { enabled: true } } : {}),
    ...addons.cni.values,
  };
}

const ofPool =
  (...more: readonly string[]) =>
  (pool: string | null): readonly string[] => [pool === null ? "/vms" : `/pool/${pool}`, "/nodes", ...more];

export const addonCatalogue: readonly AddonKind[] = [
  {
    name: "gateway-api",
    about: "the kinds of the Gateway API",
    isWanted: usesGateway,
    isNetwork: true,
    namespace: "kube-system",
    version: "v1.4.1",
    source: {
      kind: "manifest",
      from: `${GITHUB}/kubernetes-sigs/gateway-api/releases/download/{version}/standard-install.yaml`,
    },
  },
  {
    name: "cilium",
    about: "the network of pods, in place of kube-proxy too",
    isWanted: isCilium,
    isNetwork: true,
    namespace: "kube-system",
    version: "1.19.6",
    source: { kind: "chart", from: "https://helm.cilium.io/cilium-{version}.tgz" },
    values: ciliumValues,
    adjust: withEarlyPods,
  },
  {
    name: "pod-security",
    about: "what pods of the default namespace may do",
    // Baseline is what Talos sets for every namespace by itself.
    isWanted: ({ addons }) => addons.policies.podSecurity !== "baseline",
    namespace: "kube-system",
    version: "1",
    objects: podSecurityObjects,
  },
  {
    name: "access",
    about: "what people may do",
    isWanted: ({ addons }) => addons.policies.rbac.length > 0,
    namespace: "kube-system",
    version: "1",
    objects: accessObjects,
  },
  {
    name: "prometheus-crds",
    about: "the kinds of the Prometheus operator",
    isWanted: ({ addons }) => addons.monitoring.prometheusCRDs || addons.monitoring.kubePrometheusStack,
    namespace: "kube-system",
    version: "v0.86.1",
    source: {
      kind: "manifest",
      from: `${GITHUB}/prometheus-operator/prometheus-operator/releases/download/{version}/stripped-down-crds.yaml`,
    },
  },
  {
    name: "talos-ccm",
    about: "Talos' cloud controller: nodes' labels and kubelets' certificates",
    isWanted: ({ addons }) => addons.ccm.talos.enabled,
    namespace: "kube-system",
    version: "v1.11.0",
    source: {
      kind: "manifest",
      from: `${RAW}/siderolabs/talos-cloud-controller-manager/{version}/docs/deploy/cloud-controller-manager.yml`,
    },
  },
  {
    name: "proxmox-ccm",
    about: "Proxmox' cloud controller: nodes whose machine is gone, zones, provider ids",
    isWanted: ({ addons }) => addons.ccm.proxmox.enabled,
    namespace: "kube-system",
    version: "v0.12.3",
    source: {
      kind: "manifest",
      from: `${RAW}/sergelogvinov/proxmox-cloud-controller-manager/{version}/docs/deploy/cloud-controller-manager-talos.yml`,
    },
    adjust: withInitialization,
    objects: (cluster) => monitorObjects(cluster, "proxmox-cloud-controller-manager", "kube-system", "10258"),
    account: {
      privileges: ["VM.Audit", "VM.GuestAgent.Audit", "Sys.Audit"],
      paths: ofPool(),
      secret: { name: "proxmox-cloud-controller-manager", namespace: "kube-system" },
    },
  },
  {
    name: "metallb",
    about: "addresses for Services of type LoadBalancer",
    isWanted: ({ addons }) => addons.loadBalancer.type === "metallb",
    namespace: "metallb-system",
    isPrivileged: true,
    version: "v0.15.2",
    source: {
      kind: "manifest",
      from: `${RAW}/metallb/metallb/{version}/config/manifests/metallb-native.yaml`,
    },
  },
  {
    name: "load-balancer",
    about: "which addresses Services get",
    isWanted: ({ addons }) => addons.loadBalancer.type !== "none" && addons.loadBalancer.addresses.length > 0,
    namespace: "metallb-system",
    version: "1",
    objects: loadBalancerObjects,
  },
  {
    name: "traefik",
    about: "requests from outside to Services, by host and path",
    isWanted: ({ addons }) => addons.ingress.type === "traefik",
    namespace: "traefik",
    version: "37.4.0",
    source: { kind: "chart", from: "https://traefik.github.io/charts/traefik/traefik-{version}.tgz" },
  },
  {
    name: "proxmox-csi",
    about: "volumes on the platform's storages",
    isWanted: ({ addons }) => addons.csi.proxmox !== undefined,
    namespace: "csi-proxmox",
    isPrivileged: true,
    version: "v0.15.0",
    source: {
      kind: "manifest",
      from: `${RAW}/sergelogvinov/proxmox-csi-plugin/{version}/docs/deploy/proxmox-csi-plugin-talos.yml`,
    },
    objects: (cluster) => storageClass(cluster, "proxmox"),
    account: {
      privileges: [
        "VM.Audit",
        "VM.Config.Disk",
        "Datastore.Allocate",
        "Datastore.AllocateSpace",
        "Datastore.Audit",
      ],
      paths: ofPool("/storage"),
      secret: { name: "proxmox-csi-plugin", namespace: "csi-proxmox" },
    },
  },
  {
    name: "nfs-csi",
    about: "volumes on an NFS server",
    isWanted: ({ addons }) => addons.csi.nfs !== undefined,
    namespace: "kube-system",
    version: "4.13.4",
    source: {
      kind: "chart",
      from: `${RAW}/kubernetes-csi/csi-driver-nfs/master/charts/v{version}/csi-driver-nfs-{version}.tgz`,
    },
    objects: (cluster) => storageClass(cluster, "nfs"),
  },
  {
    name: "ceph-csi",
    about: "volumes on Ceph",
    isWanted: ({ addons }) => addons.csi.ceph !== undefined,
    namespace: "ceph-csi-rbd",
    isPrivileged: true,
    version: "3.15.1",
    source: { kind: "chart", from: "https://ceph.github.io/csi-charts/rbd/ceph-csi-rbd-{version}.tgz" },
    objects: (cluster) => storageClass(cluster, "ceph"),
  },
  {
    name: "local-path",
    about: "volumes in a folder of the node",
    isWanted: ({ addons }) => addons.csi.localPath !== undefined,
    namespace: "local-path-storage",
    isPrivileged: true,
    version: "v0.0.36",
    source: {
      kind: "manifest",
      from: `${RAW}/rancher/local-path-provisioner/{version}/deploy/local-path-storage.yaml`,
    },
    objects: (cluster) => storageClass(cluster, "localPath"),
  },
  {
    name: "local-storage",
    about: "the class of volumes that people make themselves",
    isWanted: ({ addons }) => addons.csi.localStorage !== undefined,
    namespace: "kube-system",
    version: "1",
    objects: (cluster) => storageClass(cluster, "localStorage"),
  },
  {
    name: "metrics-server",
    about: "what pods and nodes use now",
    isWanted: ({ addons }) => addons.metricsServer,
    namespace: "kube-system",
    version: "v0.8.0",
    source: {
      kind: "manifest",
      from: `${GITHUB}/kubernetes-sigs/metrics-server/releases/download/{version}/components.yaml`,
    },
    adjust: withKubeletTls,
  },
  {
    name: "kube-prometheus-stack",
    about: "Prometheus, Grafana and Alertmanager",
    isWanted: ({ addons }) => addons.monitoring.kubePrometheusStack,
    namespace: "monitoring",
    isPrivileged: true,
    version: "77.6.2",
    source: {
      kind: "chart",
      from: `${GITHUB}/prometheus-community/helm-charts/releases/download/kube-prometheus-stack-{version}/kube-prometheus-stack-{version}.tgz`,
    },
    values: () => ({ crds: { enabled: false } }),
  },
  {
    name: "loki",
    about: "logs, kept by Loki",
    isWanted: ({ addons }) => addons.logging.type === "loki",
    namespace: "logging",
    isPrivileged: true,
    version: "6.51.0",
    source: {
      kind: "chart",
      from: `${GITHUB}/grafana/helm-charts/releases/download/helm-loki-{version}/loki-{version}.tgz`,
    },
    values: () => ({
      deploymentMode: "SingleBinary",
      loki: {
        auth_enabled: false,
        commonConfig: { replication_factor: 1 },
        storage: { type: "filesystem" },
        useTestSchema: true,
      },
      singleBinary: { replicas: 1 },
      read: { replicas: 0 },
      write: { replicas: 0 },
      backend: { replicas: 0 },
    }),
  },
  {
    name: "elasticsearch",
    about: "logs, kept by Elasticsearch",
    isWanted: ({ addons }) => addons.logging.type === "efk",
    namespace: "logging",
    isPrivileged: true,
    version: "8.5.1",
    source: { kind: "chart", from: "https://helm.elastic.co/helm/elasticsearch/elasticsearch-{version}.tgz" },
  },
  {
    name: "kibana",
    about: "logs, looked at with Kibana",
    isWanted: ({ addons }) => addons.logging.type === "efk",
    namespace: "logging",
    version: "8.5.1",
    source: { kind: "chart", from: "https://helm.elastic.co/helm/kibana/kibana-{version}.tgz" },
  },
  {
    name: "fluent-bit",
    about: "collects logs on every node",
    isWanted: ({ addons }) => addons.logging.type !== "none",
    namespace: "logging",
    isPrivileged: true,
    version: "0.55.0",
    source: {
      kind: "chart",
      from: `${GITHUB}/fluent/helm-charts/releases/download/fluent-bit-{version}/fluent-bit-{version}.tgz`,
    },
  },
  {
    name: "flux",
    about: "follows a Git repository",
    isWanted: ({ addons }) => addons.gitops.flux !== undefined,
    namespace: "flux-system",
    version: "v2.7.5",
    source: { kind: "manifest", from: `${GITHUB}/fluxcd/flux2/releases/download/{version}/install.yaml` },
    objects: fluxObjects,
  },
  {
    name: "argocd",
    about: "follows a Git repository",
    isWanted: ({ addons }) => addons.gitops.argocd !== undefined,
    namespace: "argocd",
    version: "v3.3.9",
    source: { kind: "manifest", from: `${RAW}/argoproj/argo-cd/{version}/manifests/install.yaml` },
    objects: argoObjects,
  },
  {
    name: "network-policies",
    about: "pods of the default namespace talk to nobody unless a policy lets them",
    isWanted: ({ addons }) => addons.policies.defaultDeny,
    namespace: "default",
    version: "1",
    objects: networkPolicyObjects,
  },
];

/** Those the file asks for, its own at the end. */
export function wantedAddons(cluster: Cluster): readonly AddonKind[] {
  const own = cluster.addons.extra.map(({ name, namespace, version, manifest, chart }): AddonKind => ({
    name,
    about: "of the file itself",
    isWanted: () => true,
    namespace,
    version,
    source: chart === undefined ? { kind: "manifest", from: manifest ?? "" } : { kind: "chart", from: chart },
  }));
  return [...addonCatalogue.filter(({ isWanted }) => isWanted(cluster)), ...own];
}
