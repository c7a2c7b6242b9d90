// Names of Services and pods: CoreDNS as a Deployment of the cluster's own, from an image that its workers have.
import { dnsServiceAddress } from "../certificates.ts";
import type { VirtualClusterSpec } from "../vcluster-spec.ts";
import { type NodeNameServers, nameServersFor } from "./name-servers.ts";

export interface ClusterObject {
  /** Of the collection. */
  readonly path: string;
  readonly body: Readonly<Record<string, unknown>> & {
    readonly metadata: Readonly<Record<string, unknown>> & { readonly name: string };
  };
}

const NAMESPACE = "kube-system";
const labels = { "k8s-app": "kube-dns", "app.kubernetes.io/managed-by": "gpve" };
const rbac = "/apis/rbac.authorization.k8s.io/v1";

export function clusterDns(
  spec: Pick<VirtualClusterSpec, "serviceCidr" | "dnsDomain" | "egress">,
  image: string,
  node: () => NodeNameServers,
): readonly ClusterObject[] {
  const { serviceCidr, dnsDomain } = spec;
  const core = (plural: string): string => `/api/v1/namespaces/${NAMESPACE}/${plural}`;
  const metadata = (name: string) => ({ name, namespace: NAMESPACE, labels });
  const account = { kind: "ServiceAccount", name: "coredns", namespace: NAMESPACE };
  return [
    {
      path: core("serviceaccounts"),
      body: { apiVersion: "v1", kind: "ServiceAccount", metadata: metadata("coredns") },
    },
    {
      path: `${rbac}/clusterroles`,
      body: {
        apiVersion: "rbac.authorization.k8s.io/v1",
        kind: "ClusterRole",
        metadata: { name: "system:coredns", labels },
        rules: [
          {
            apiGroups: [""],
            resources: ["endpoints", "services", "pods", "namespaces"],
            verbs: ["list", "watch"],
          },
          { apiGroups: ["discovery.k8s.io"], resources: ["endpointslices"], verbs: ["list", "watch"] },
        ],
      },
    },
    {
      path: `${rbac}/clusterrolebindings`,
      body: {
        apiVersion: "rbac.authorization.k8s.io/v1",
        kind: "ClusterRoleBinding",
        metadata: { name: "system:coredns", labels },
        roleRef: { apiGroup: "rbac.authorization.k8s.io", kind: "ClusterRole", name: "system:coredns" },
        subjects: [account],
      },
    },
    {
      path: core("configmaps"),
      body: {
        apiVersion: "v1",
        kind: "ConfigMap",
        metadata: metadata("coredns"),
        data: { Corefile: corefile(dnsDomain, nameServersFor(spec, node)) },
      },
    },
    {
      path: core("services"),
      body: {
        apiVersion: "v1",
        kind: "Service",
        metadata: metadata("kube-dns"),
        spec: {
          clusterIP: dnsServiceAddress(serviceCidr),
          selector: { "k8s-app": "kube-dns" },
          ports: [
            { name: "dns", port: 53, protocol: "UDP" },
            { name: "dns-tcp", port: 53, protocol: "TCP" },
          ],
        },
      },
    },
    {
      path: `/apis/apps/v1/namespaces/${NAMESPACE}/deployments`,
      body: {
        apiVersion: "apps/v1",
        kind: "Deployment",
        metadata: metadata("coredns"),
        spec: {
          replicas: 1,
          selector: { matchLabels: { "k8s-app": "kube-dns" } },
          template: { metadata: { labels: { "k8s-app": "kube-dns" } }, spec: podOf(image) },
        },
      },
    },
  ];
}

function podOf(image: string): Readonly<Record<string, unknown>> {
  return {
    serviceAccountName: "coredns",
    priorityClassName: "system-cluster-critical",
    // Its own settings are the worker's, not the Service that it is.
    dnsPolicy: "Default",
    containers: [
      {
        name: "coredns",
        image,
        imagePullPolicy: "IfNotPresent",
        args: ["-conf", "/etc/coredns/Corefile"],
        resources: { requests: { cpu: "50m", memory: "40Mi" }, limits: { memory: "170Mi" } },
        volumeMounts: [{ name: "config", mountPath: "/etc/coredns", readOnly: true }],
        readinessProbe: { httpGet: { path: "/ready", port: 8181 }, periodSeconds: 2, timeoutSeconds: 5 },
        securityContext: {
          allowPrivilegeEscalation: false,
          readOnlyRootFilesystem: true,
          capabilities: { drop: ["ALL"], add: ["NET_BIND_SERVICE"] },
        },
      },
    ],
    volumes: [
      { name: "config", configMap: { name: "coredns", items: [{ key: "Corefile", path: "Corefile" }] } },
    ],
  };
}

function corefile(dnsDomain: string, outside: readonly string[]): string {
  return [
    ".:53 {",
    "    errors",
    "    ready",
    `    kubernetes ${dnsDomain} in-addr.arpa ip6.arpa {`,
    "        pods insecure",
    "        fallthrough in-addr.arpa ip6.arpa",
    "        ttl 30",
    "    }",
    // Not whom its own list names: where a worker has none that is its host's, and may be the pod itself.
    ...(outside.length === 0
      ? []
      : [`    forward . ${outside.join(" ")} {`, "        policy sequential", "    }"]),
    "    cache 30",
    "    reload",
    "}",
    "",
  ].join("\n");
}
