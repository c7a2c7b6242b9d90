// Objects that are written here rather than fetched: policies, access, address pools, what GitOps follows.
import { given } from "@gpve/contracts/given.ts";
import type { Cluster } from "../cluster/cluster.ts";
import type { KubernetesObject } from "../kubernetes/kubernetes.ts";

export function namespaceObject(name: string, isPrivileged: boolean): KubernetesObject {
  const labels = isPrivileged ? { "pod-security.kubernetes.io/enforce": "privileged" } : undefined;
  return {
    apiVersion: "v1",
    kind: "Namespace",
    metadata: { name, ...given({ labels }) },
  };
}

/** On the namespace that pods are in when nobody says otherwise; the API server's own default is Talos' baseline. */
export function podSecurityObjects({ addons }: Cluster): readonly KubernetesObject[] {
  const level = addons.policies.podSecurity;
  const labels = {
    "pod-security.kubernetes.io/enforce": level,
    "pod-security.kubernetes.io/warn": level === "privileged" ? "baseline" : "restricted",
  };
  return [{ apiVersion: "v1", kind: "Namespace", metadata: { name: "default", labels } }];
}

/** Each entry: a ClusterRole or Role, or a binding of either, as Kubernetes spells it. */
export function accessObjects({ addons }: Cluster): readonly KubernetesObject[] {
  const apiVersion = "rbac.authorization.k8s.io/v1";
  return addons.policies.rbac.map((entry) => ({ apiVersion, ...entry }) as unknown as KubernetesObject);
}

export function networkPolicyObjects(): readonly KubernetesObject[] {
  const policy = (name: string, spec: object): KubernetesObject => ({
    apiVersion: "networking.k8s.io/v1",
    kind: "NetworkPolicy",
    metadata: { name, namespace: "default" },
    spec: { podSelector: {}, ...spec },
  });
  const dns = ["UDP", "TCP"].map((protocol) => ({ protocol, port: 53 }));
  const kubeDns = {
    namespaceSelector: { matchLabels: { "kubernetes.io/metadata.name": "kube-system" } },
    podSelector: { matchLabels: { "k8s-app": "kube-dns" } },
  };
  return [
    policy("default-deny", { policyTypes: ["Ingress", "Egress"] }),
    policy("allow-dns", { policyTypes: ["Egress"], egress: [{ to: [kubeDns], ports: dns }] }),
  ];
}

export function loadBalancerObjects({ addons }: Cluster): readonly KubernetesObject[] {
  const { type, addresses } = addons.loadBalancer;
  if (type === "metallb") {
    const metadata = { name: "default", namespace: "metallb-system" };
    return [
      { apiVersion: "metallb.io/v1beta1", kind: "IPAddressPool", metadata, spec: { addresses } },
      {
        apiVersion: "metallb.io/v1beta1",
        kind: "L2Advertisement",
        metadata,
        spec: { ipAddressPools: ["default"] },
      },
    ];
  }
  const blocks = addresses.map((text) => {
    const [start, stop] = text.split("-");
    return stop === undefined ? { cidr: text } : { start, stop };
  });
  return [
    {
      apiVersion: "cilium.io/v2",
      kind: "CiliumLoadBalancerIPPool",
      metadata: { name: "default" },
      spec: { blocks },
    },
    {
      apiVersion: "cilium.io/v2alpha1",
      kind: "CiliumL2AnnouncementPolicy",
      metadata: { name: "default" },
      spec: { loadBalancerIPs: true, externalIPs: true },
    },
  ];
}

/** Without the operator's kinds there is nobody to scrape. */
export function monitorObjects(
  { addons }: Cluster,
  name: string,
  namespace: string,
  port: string,
): readonly KubernetesObject[] {
  if (!addons.monitoring.prometheusCRDs && !addons.monitoring.kubePrometheusStack) return [];
  return [
    {
      apiVersion: "monitoring.coreos.com/v1",
      kind: "PodMonitor",
      metadata: { name, namespace },
      spec: {
        selector: { matchLabels: { "app.kubernetes.io/name": name } },
        podMetricsEndpoints: [
          {
            scheme: "https",
            path: "/metrics",
            relabelings: [
              {
                targetLabel: "__address__",
                sourceLabels: ["__meta_kubernetes_pod_ip"],
                replacement: `$1:${port}`,
              },
            ],
            tlsConfig: { insecureSkipVerify: true },
          },
        ],
      },
    },
  ];
}

export function fluxObjects({ addons, metadata: { name: cluster } }: Cluster): readonly KubernetesObject[] {
  const { repo, path, branch } = addons.gitops.flux ?? { repo: null, path: null, branch: null };
  if (repo === null) return [];
  const metadata = { name: cluster, namespace: "flux-system" };
  return [
    {
      apiVersion: "source.toolkit.fluxcd.io/v1",
      kind: "GitRepository",
      metadata,
      spec: { interval: "5m", url: repo, ref: { branch: branch ?? "main" } },
    },
    {
      apiVersion: "kustomize.toolkit.fluxcd.io/v1",
      kind: "Kustomization",
      metadata,
      spec: {
        interval: "10m",
        path: `./${path ?? ""}`,
        prune: true,
        sourceRef: { kind: "GitRepository", name: cluster },
      },
    },
  ];
}

export function argoObjects({ addons, metadata: { name: cluster } }: Cluster): readonly KubernetesObject[] {
  const { repo, path, branch } = addons.gitops.argocd ?? { repo: null, path: null, branch: null };
  if (repo === null) return [];
  return [
    {
      apiVersion: "argoproj.io/v1alpha1",
      kind: "Application",
      metadata: { name: cluster, namespace: "argocd" },
      spec: {
        project: "default",
        source: { repoURL: repo, path: path ?? ".", targetRevision: branch ?? "HEAD" },
        destination: { server: "https://kubernetes.default.svc", namespace: "default" },
        syncPolicy: { automated: { prune: true, selfHeal: true } },
      },
    },
  ];
}
