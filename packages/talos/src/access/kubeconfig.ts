// kubeconfig of a cluster's administrator, made from the secrets bundle without asking the cluster.
import type { Document } from "yaml";
import { writeConfig } from "../config/config-text.ts";
import { signClientCertificate } from "../secrets/authority.ts";
import { toBase64 } from "../secrets/base64-text.ts";
import type { SecretsBundle } from "../secrets/bundle.ts";
import { trustedBy } from "../secrets/rotation.ts";
import { editableMap, freeName, toText } from "./editable-yaml.ts";
import { positionOf, putNamed } from "./named-entries.ts";
import { isOfCluster } from "./same-cluster.ts";

const YEAR_HOURS = 8760;

export interface KubernetesAccess {
  readonly clusterName: string;
  readonly server: string;
  /** These are base64 of PEM. */
  readonly ca: string;
  readonly crt: string;
  readonly key: string;
}

export interface KubernetesAccessRequest {
  readonly clusterName: string;
  readonly endpoint: string;
  readonly lifetimeHours?: number;
  readonly now: number;
}

/** Signs a certificate of Kubernetes' administrators' group; its key exists in the result only. */
export async function createKubernetesAccess(
  secrets: SecretsBundle,
  request: KubernetesAccessRequest,
): Promise<KubernetesAccess> {
  const client = await signClientCertificate(
    secrets.certs.k8s,
    {
      organizations: ["system:masters"],
      commonName: "admin",
      keyKind: "ecdsa",
      lifetimeHours: request.lifetimeHours ?? YEAR_HOURS,
      now: request.now,
    },
    "Kubernetes' authority",
  );
  return {
    clusterName: request.clusterName,
    server: request.endpoint,
    ca: toBase64(trustedBy(secrets, "k8s")),
    crt: toBase64(client.crt),
    key: toBase64(client.key),
  };
}

export function writeKubeconfig(access: KubernetesAccess): string {
  const { clusters, users, contexts, currentContext } = entries(access, access.clusterName);
  return writeConfig([
    {
      apiVersion: "v1",
      kind: "Config",
      clusters: [clusters],
      users: [users],
      contexts: [contexts],
      "current-context": currentContext,
    },
  ]);
}

export interface MergedKubeconfig {
  readonly text: string;
  readonly contextName: string;
}

/**
 * Puts a cluster into an existing file and selects it. Entries of the same cluster (same authority, or a `former` one) are replaced in
 * their place; those of another cluster with this name keep it, and ours gets a number.
 */
export function mergeKubeconfig(
  existing: string,
  access: KubernetesAccess,
  former: readonly string[] = [],
): MergedKubeconfig {
  const document = editableMap(existing, "the kubeconfig");
  if (!document.has("apiVersion")) document.set("apiVersion", "v1");
  if (!document.has("kind")) document.set("kind", "Config");
  const name = freeName(access.clusterName, (candidate) => isOther(document, candidate, access.ca, former));
  const { currentContext, ...lists } = entries(access, name);
  for (const [list, entry] of Object.entries(lists)) putNamed(document, list, entry);
  document.set("current-context", currentContext);
  return { text: toText(document), contextName: currentContext };
}

function entries(access: KubernetesAccess, name: string) {
  const user = `admin@${name}`;
  return {
    clusters: { name, cluster: { server: access.server, "certificate-authority-data": access.ca } },
    users: {
      name: user,
      user: { "client-certificate-data": access.crt, "client-key-data": access.key },
    },
    contexts: { name: user, context: { cluster: name, namespace: "default", user } },
    currentContext: user,
  };
}

function isOther(document: Document, name: string, ca: string, former: readonly string[]): boolean {
  const cluster = positionOf(document, "clusters", name);
  if (cluster >= 0) {
    const found = document.getIn(["clusters", cluster, "cluster", "certificate-authority-data"]);
    return !isOfCluster(found, ca, former);
  }
  const user = `admin@${name}`;
  return positionOf(document, "users", user) >= 0 || positionOf(document, "contexts", user) >= 0;
}
