// Manifests as Kubernetes reads them: YAML 1.2 but for octal numbers, lists flattened, in an order in which each object
// finds what it needs.
import { AppError } from "@gpve/contracts/errors.ts";
import { isObject } from "@gpve/client/response-error.ts";
import { parseAllDocuments, type ScalarTag } from "yaml";
import type { KubernetesObject } from "../kubernetes/kubernetes.ts";
import { isGlobalKind, isKnownKind } from "../kubernetes/object-path.ts";

/** `defaultMode: 0644` is octal to everybody who reads manifests. */
const octal: ScalarTag = {
  identify: () => false,
  default: true,
  tag: "tag:yaml.org,2002:int",
  test: /^0[0-7]+$/,
  resolve: (text) => Number.parseInt(text, 8),
};

export function parseManifest(text: string, about: string, namespace: string): readonly KubernetesObject[] {
  const documents = parseAllDocuments(text, { customTags: (tags) => [octal, ...tags] });
  const objects = (Array.isArray(documents) ? documents : []).flatMap((document) => {
    const [problem] = document.errors;
    if (problem !== undefined) throw broken(about, problem.message);
    return flattened(document.toJS({ maxAliasCount: 1000 }) as unknown, about);
  });
  return objects.map((object) => placed(object, namespace)).toSorted((a, b) => rank(a) - rank(b));
}

function flattened(tree: unknown, about: string): readonly KubernetesObject[] {
  if (tree === null || tree === undefined) return [];
  if (!isObject(tree)) throw broken(about, "a document is no object");
  if (Array.isArray(tree["items"]) && String(tree["kind"]).endsWith("List"))
    return (tree["items"] as unknown[]).flatMap((item) => flattened(item, about));
  const { apiVersion, kind, metadata } = tree;
  const isNamed = isObject(metadata) && typeof metadata["name"] === "string";
  if (typeof apiVersion !== "string" || typeof kind !== "string" || !isNamed)
    throw broken(about, "an object lacks apiVersion, kind or metadata.name");
  return [tree as unknown as KubernetesObject];
}

/** Kinds that nobody here knows say themselves where they belong. */
function placed(object: KubernetesObject, namespace: string): KubernetesObject {
  const { metadata } = object;
  if (metadata.namespace !== undefined || isGlobalKind(object) || !isKnownKind(object)) return object;
  return { ...object, metadata: { ...metadata, namespace } };
}

const FIRST = [
  "Namespace",
  "CustomResourceDefinition",
  "PriorityClass",
  "ServiceAccount",
  "ClusterRole",
  "ClusterRoleBinding",
  "Role",
  "RoleBinding",
  "ConfigMap",
  "Secret",
  "StorageClass",
  "Service",
];
const LAST = ["APIService", "MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"];

function rank(object: KubernetesObject): number {
  const first = FIRST.indexOf(object.kind);
  if (first >= 0 && isKnownKind(object)) return first;
  if (LAST.includes(object.kind)) return FIRST.length + 1;
  return isKnownKind(object) ? FIRST.length : FIRST.length + 2;
}

function broken(about: string, why: string): AppError {
  return new AppError("config.invalid", `${about} is no manifest: ${why}`, {
    data: { finding: "addon-broken" },
  });
}
