// What talhelper's keys of a node or of a role become: Talos' own sections and documents, as a patch.
import { stringify } from "yaml";
import { isTree, listOf, textMapOf, type Tree, treeAt } from "./imported-cluster.ts";

/** Keys of a node or a role that are written as a patch; a pool of workers has labels and taints of its own. */
const SETTINGS = `nodeAnnotations kernelModules machineFiles machineDisks extraMachineCertSans ingressFirewall
  extensionServices`.split(/\s+/);
const MARKS = ["nodeLabels", "nodeTaints"];
/** The minor of v1 from which on Kubernetes' part of a machine is a document. */
const FIRST_OF_KUBERNETES_DOCUMENTS = 14;

export const settingsOf = (isControlPlane: boolean): readonly string[] =>
  isControlPlane ? [...SETTINGS, ...MARKS] : SETTINGS;

/** A node has its role's keys, where it says nothing of its own: talhelper does not mix the two. */
export function withRole(node: Tree, role: unknown): Tree {
  const own = Object.entries(node).filter(([, value]) => !isUnset(value));
  // Patches of both hold, and images are told by their own order.
  const {
    patches: _patches,
    schematic: _schematic,
    talosImageURL: _url,
    ...general
  } = isTree(role) ? role : {};
  return { ...general, ...Object.fromEntries(own) };
}

const isUnset = (value: unknown): boolean =>
  value === null ||
  value === "" ||
  value === false ||
  (typeof value === "object" && Object.keys(value).length === 0);

/** Those of `keys` as a patch; empty when there are none. */
export function settingsPatch(part: unknown, keys: readonly string[], minor: number): string {
  const of = (key: string): unknown => {
    const value = keys.includes(key) ? treeAt(part, key) : undefined;
    return isUnset(value) ? undefined : value;
  };
  const texts = (key: string) => (of(key) === undefined ? undefined : textMapOf(of(key)));
  const isDocument = minor >= FIRST_OF_KUBERNETES_DOCUMENTS;
  const [labels, annotations, taints] = ["nodeLabels", "nodeAnnotations", "nodeTaints"].map(texts);
  const modules = of("kernelModules");
  const documents = [
    inside("machine", {
      certSANs: of("extraMachineCertSans"),
      disks: of("machineDisks"),
      files: of("machineFiles"),
      kernel: modules === undefined ? undefined : { modules },
      ...(isDocument ? {} : { nodeLabels: labels, nodeAnnotations: annotations, nodeTaints: taints }),
    }),
    ...(isDocument ? [typed("KubeNodeConfig", { labels, annotations, taints })] : []),
    ...firewall(of("ingressFirewall")),
    ...listOf(of("extensionServices"))
      .filter(isTree)
      .map((service) => typed("ExtensionServiceConfig", service)),
  ];
  return documents
    .filter((document) => document !== undefined)
    .map((document) => stringify(document, { lineWidth: 0 }))
    .join("---\n");
}

function firewall(value: unknown): readonly (Tree | undefined)[] {
  if (!isTree(value)) return [];
  return [
    typed("NetworkDefaultActionConfig", { ingress: value["defaultAction"] ?? "block" }),
    ...listOf(value["rules"])
      .filter(isTree)
      .map((rule) => typed("NetworkRuleConfig", rule)),
  ];
}

function typed(kind: string, fields: Tree): Tree | undefined {
  const document = inside("fields", fields);
  return document === undefined
    ? undefined
    : { apiVersion: "v1alpha1", kind, ...(document["fields"] as Tree) };
}

/** undefined: no field is set. */
function inside(key: string, fields: Tree): Tree | undefined {
  const set = Object.entries(fields).filter(([, value]) => value !== undefined);
  return set.length === 0 ? undefined : { [key]: Object.fromEntries(set) };
}
