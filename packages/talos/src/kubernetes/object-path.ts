// Where an object is found by the API. Plurals follow Kubernetes' own rule; the exceptions are listed.
import type { KubernetesObject } from "./kubernetes.ts";

/** Kinds that belong to no namespace. */
const GLOBAL = new Set([
  "Namespace",
  "Node",
  "PersistentVolume",
  "StorageClass",
  "ClusterRole",
  "ClusterRoleBinding",
  "CustomResourceDefinition",
  "PriorityClass",
  "IngressClass",
  "RuntimeClass",
  "CSIDriver",
  "APIService",
  "MutatingWebhookConfiguration",
  "ValidatingWebhookConfiguration",
  "ValidatingAdmissionPolicy",
  "ValidatingAdmissionPolicyBinding",
  "GatewayClass",
  "CertificateSigningRequest",
  "VolumeSnapshotClass",
]);
/** Groups that come with Kubernetes; others are defined by whoever brings them. */
const BUILT_IN = new Set([
  "",
  "apps",
  "batch",
  "autoscaling",
  "policy",
  "rbac.authorization.k8s.io",
  "networking.k8s.io",
  "storage.k8s.io",
  "apiextensions.k8s.io",
  "apiregistration.k8s.io",
  "admissionregistration.k8s.io",
  "scheduling.k8s.io",
  "coordination.k8s.io",
  "node.k8s.io",
  "certificates.k8s.io",
  "discovery.k8s.io",
  "events.k8s.io",
  "flowcontrol.apiserver.k8s.io",
  "resource.k8s.io",
]);

export const isGlobalKind = ({ kind }: Pick<KubernetesObject, "kind">): boolean => GLOBAL.has(kind);
export const isKnownKind = ({ apiVersion }: Pick<KubernetesObject, "apiVersion">): boolean =>
  BUILT_IN.has(apiVersion.includes("/") ? apiVersion.slice(0, apiVersion.indexOf("/")) : "");

const PLURALS: Readonly<Record<string, string>> = { Endpoints: "endpoints" };

/** `resource`: as the API itself names its kind, where that is known. */
export interface ApiResource {
  readonly name: string;
  readonly isNamespaced: boolean;
}

export function objectPath(
  { apiVersion, kind, metadata }: KubernetesObject,
  { name, isNamespaced }: ApiResource = { name: plural(kind), isNamespaced: !GLOBAL.has(kind) },
): string {
  const base = groupPath(apiVersion);
  const space = !isNamespaced ? "" : `/namespaces/${metadata.namespace ?? "default"}`;
  return `${base}${space}/${name}/${encodeURIComponent(metadata.name)}`;
}

export const groupPath = (apiVersion: string): string =>
  apiVersion.includes("/") ? `/apis/${apiVersion}` : `/api/${apiVersion}`;

function plural(kind: string): string {
  const name = kind.toLowerCase();
  const known = PLURALS[kind];
  if (known !== undefined) return known;
  if (/(s|x|ch|sh)$/.test(name)) return `${name}es`;
  return /[^aeiou]y$/.test(name) ? `${name.slice(0, -1)}ies` : `${name}s`;
}
