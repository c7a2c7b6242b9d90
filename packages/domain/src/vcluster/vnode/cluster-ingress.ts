// Who serves Ingresses: Traefik as a Deployment of the cluster's own, from an image that its workers have, behind a Service with
// an address of the cluster's load balancers. What is there stays: it is the tenant's from then on.
import type { ClusterObject } from "./cluster-dns.ts";

const NAMESPACE = "kube-system";
const NAME = "traefik";
const ROLE = "gpve:traefik";
const labels = { "app.kubernetes.io/name": NAME, "app.kubernetes.io/managed-by": "gpve" };
const selector = { "app.kubernetes.io/name": NAME };
const rbac = "/apis/rbac.authorization.k8s.io/v1";
/** Above 1024: it is nobody's root. */
const PORTS = { web: 8000, websecure: 8443, ping: 8080 } as const;

export function clusterIngress(image: string): readonly ClusterObject[] {
  const core = (plural: string): string => `/api/v1/namespaces/${NAMESPACE}/${plural}`;
  const metadata = { name: NAME, namespace: NAMESPACE, labels };
  return [
    { path: core("serviceaccounts"), body: { apiVersion: "v1", kind: "ServiceAccount", metadata } },
    ...rights(),
    {
      path: "/apis/networking.k8s.io/v1/ingressclasses",
      body: {
        apiVersion: "networking.k8s.io/v1",
        kind: "IngressClass",
        metadata: {
          name: NAME,
          labels,
          annotations: { "ingressclass.kubernetes.io/is-default-class": "true" },
        },
        spec: { controller: "traefik.io/ingress-controller" },
      },
    },
    {
      path: core("services"),
      body: {
        apiVersion: "v1",
        kind: "Service",
        metadata,
        spec: {
          type: "LoadBalancer",
          selector,
          ports: [
            { name: "web", port: 80, targetPort: PORTS.web },
            { name: "websecure", port: 443, targetPort: PORTS.websecure },
          ],
        },
      },
    },
    {
      path: `/apis/apps/v1/namespaces/${NAMESPACE}/deployments`,
      body: {
        apiVersion: "apps/v1",
        kind: "Deployment",
        metadata,
        spec: {
          replicas: 1,
          selector: { matchLabels: selector },
          template: { metadata: { labels }, spec: podOf(image) },
        },
      },
    },
  ];
}

/** Secrets hold the certificates that Ingresses name, in any namespace. */
function rights(): readonly ClusterObject[] {
  const apiVersion = "rbac.authorization.k8s.io/v1";
  const read = ["get", "list", "watch"];
  const networking = "networking.k8s.io";
  return [
    {
      path: `${rbac}/clusterroles`,
      body: {
        apiVersion,
        kind: "ClusterRole",
        metadata: { name: ROLE, labels },
        rules: [
          { apiGroups: [""], resources: ["services", "secrets", "nodes"], verbs: read },
          { apiGroups: ["discovery.k8s.io"], resources: ["endpointslices"], verbs: ["list", "watch"] },
          { apiGroups: [networking], resources: ["ingresses", "ingressclasses"], verbs: read },
          { apiGroups: [networking], resources: ["ingresses/status"], verbs: ["update"] },
        ],
      },
    },
    {
      path: `${rbac}/clusterrolebindings`,
      body: {
        apiVersion,
        kind: "ClusterRoleBinding",
        metadata: { name: ROLE, labels },
        roleRef: { apiGroup: "rbac.authorization.k8s.io", kind: "ClusterRole", name: ROLE },
        subjects: [{ kind: "ServiceAccount", name: NAME, namespace: NAMESPACE }],
      },
    },
  ];
}

function podOf(image: string): Readonly<Record<string, unknown>> {
  return {
    serviceAccountName: NAME,
    containers: [
      {
        name: NAME,
        image,
        imagePullPolicy: "IfNotPresent",
        args: [
          `--entryPoints.web.address=:${PORTS.web}`,
          `--entryPoints.websecure.address=:${PORTS.websecure}`,
          "--entryPoints.websecure.http.tls=true",
          `--entryPoints.traefik.address=:${PORTS.ping}`,
          "--ping=true",
          "--providers.kubernetesIngress=true",
          `--providers.kubernetesIngress.ingressEndpoint.publishedService=${NAMESPACE}/${NAME}`,
          // Nobody is called home.
          "--global.checkNewVersion=false",
          "--global.sendAnonymousUsage=false",
        ],
        ports: [{ containerPort: PORTS.web }, { containerPort: PORTS.websecure }],
        resources: { requests: { cpu: "50m", memory: "64Mi" }, limits: { memory: "256Mi" } },
        readinessProbe: {
          httpGet: { path: "/ping", port: PORTS.ping },
          periodSeconds: 2,
          timeoutSeconds: 5,
        },
        volumeMounts: [{ name: "tmp", mountPath: "/tmp" }],
        securityContext: {
          allowPrivilegeEscalation: false,
          readOnlyRootFilesystem: true,
          runAsNonRoot: true,
          runAsUser: 65_532,
          capabilities: { drop: ["ALL"] },
        },
      },
    ],
    volumes: [{ name: "tmp", emptyDir: {} }],
  };
}
