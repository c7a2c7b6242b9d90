// Where Talos does not simply append lists and merge maps, as data. A path names keys of a document's kind; "[]" is any
// item of a list.

export type MergeRule =
  | { readonly how: "replace" }
  /** Appended, except what is there already. */
  | { readonly how: "union" }
  /** Items with the same value of the first of these keys that the patch's item has are merged. */
  | { readonly how: "match"; readonly keys: readonly string[] };

const replace: MergeRule = { how: "replace" };
const union: MergeRule = { how: "union" };
const match = (...keys: readonly string[]): MergeRule => ({ how: "match", keys });

/** Kind of the first document, which does not name one. */
export const V1ALPHA1 = "v1alpha1";

/**
 * PodSecurity's exemptions. The generated ones name kube-system, and so does the example that every patch starts from:
 * appended as by Talos 1.14, it would be named twice, with which the API server does not start (talos#14397).
 */
const exemptions = (configuration: string): Readonly<Record<string, MergeRule>> =>
  Object.fromEntries(
    ["namespaces", "runtimeClasses", "usernames"].map((key) => [`${configuration}.exemptions.${key}`, union]),
  );

const rules: Readonly<Record<string, Readonly<Record<string, MergeRule>>>> = {
  [V1ALPHA1]: {
    "machine.network.interfaces": match("interface", "deviceSelector"),
    "machine.network.interfaces.[].vlans": match("vlanId"),
    "cluster.network.podSubnets": replace,
    "cluster.network.serviceSubnets": replace,
    "cluster.apiServer.admissionControl": match("name"),
    ...exemptions("cluster.apiServer.admissionControl.[].configuration"),
    "cluster.apiServer.auditPolicy": replace,
  },
  CRIBaseRuntimeSpecConfig: { overrides: replace },
  ExtensionServiceConfig: { configFiles: match("mountPath") },
  KubeAdmissionControlConfig: exemptions("configuration"),
  KubeAuditPolicyConfig: { configuration: replace },
  KubeNetworkConfig: { podSubnets: replace, serviceSubnets: replace },
  NetworkRuleConfig: { ingress: replace, "portSelector.ports": replace },
};

export function mergeRule(kind: string, path: readonly string[]): MergeRule | undefined {
  const ofKind = Object.hasOwn(rules, kind) ? rules[kind] : undefined;
  const key = path.join(".");
  return ofKind !== undefined && Object.hasOwn(ofKind, key) ? ofKind[key] : undefined;
}
