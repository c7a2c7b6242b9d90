// What belongs to the platform in a virtual cluster, whatever roles its tenants give themselves. RBAC can only allow; so an
// authorizer stands before it that denies. It is a webhook with nobody behind it: whatever its conditions match is asked at an
// address where nothing listens, and a question without an answer is a refusal. Everything else passes it by.
//
// - Who acts as `system:masters` passes every authorizer: nobody acts as it.
// - Who comes by a kubeconfig that was taken back may nothing, whatever roles he had given himself (revoked.ts).
// - The guard's objects, where a version has no files for them (vnode/guard.ts).
// - The entries of Kubernetes' own APIs in the aggregator: led to a server of a tenant's, they would be what the API server
//   reads its guard from, and what kubelets read their pods from.
import type { Fields } from "@gpve/contracts/json-object.ts";
import { KUBECONFIG_GROUP } from "./kubeconfig.ts";
import { GUARD_OBJECTS, type GuardKind } from "./vnode/guard.ts";

/** Groups of the API server itself that end like those of others. Those without a dot are all its own. */
const OWN_GROUPS = [
  "admissionregistration",
  "apiextensions",
  "apiregistration",
  "authentication",
  "authorization",
  "certificates",
  "coordination",
  "discovery",
  "events",
  "flowcontrol\\.apiserver",
  "internal\\.apiserver",
  "networking",
  "node",
  "rbac\\.authorization",
  "resource",
  "scheduling",
  "storage",
  "storagemigration",
];

const asked = "request.resourceAttributes";
/** Whoever deletes many by a label that those which are meant do not have, does not mean them. */
const choosesOthers =
  `has(${asked}.labelSelector) && has(${asked}.labelSelector.requirements) && ` +
  `${asked}.labelSelector.requirements.exists(r, r.operator in ['In', 'Exists'] && r.key != 'kube-aggregator.kubernetes.io/automanaged')`;
const about = (group: string, resource: string, isMeant: string): string =>
  `(${asked}.group == '${group}' && ${asked}.resource ${resource} && ${asked}.subresource == '' && ` +
  `(${asked}.verb in ['update', 'patch', 'delete'] && ${asked}.name${isMeant} || ` +
  `${asked}.verb == 'deletecollection' && !(${choosesOthers})))`;

const NOBODY_IS_MASTER = `(${asked}.verb.startsWith('impersonate') && ${asked}.name == 'system:masters')`;
const OWN_APIS = about(
  "apiregistration.k8s.io",
  "== 'apiservices'",
  `.matches(r'^v[0-9a-z]+\\.([a-z]*|(${OWN_GROUPS.join("|")})\\.k8s\\.io)$')`,
);
const GUARD = about(
  "admissionregistration.k8s.io",
  "in ['validatingadmissionpolicies', 'validatingadmissionpolicybindings']",
  `.startsWith('${GUARD_OBJECTS}')`,
);

/** Before the authorizers that every cluster has. `revoked`: ids of kubeconfigs. */
export function authorizationConfig(
  kubeconfig: string,
  guard: GuardKind | undefined,
  revoked: readonly string[] = [],
): string {
  const conditions = [NOBODY_IS_MASTER, OWN_APIS, ...(guard === "objects" ? [GUARD] : [])];
  const denied = (name: string, expressions: readonly string[]): Fields => ({
    type: "Webhook",
    name,
    webhook: {
      timeout: "1s",
      authorizedTTL: "1s",
      unauthorizedTTL: "1s",
      subjectAccessReviewVersion: "v1",
      matchConditionSubjectAccessReviewVersion: "v1",
      failurePolicy: "Deny",
      connectionInfo: { type: "KubeConfigFile", kubeConfigFile: kubeconfig },
      matchConditions: expressions.map((expression) => ({ expression })),
    },
  });
  const groups = revoked.map((id) => `'${KUBECONFIG_GROUP}${id}'`).join(", ");
  return JSON.stringify({
    apiVersion: "apiserver.config.k8s.io/v1",
    kind: "AuthorizationConfiguration",
    authorizers: [
      denied("gpve-platform", ["has(request.resourceAttributes)", conditions.join(" || ")]),
      ...(groups === ""
        ? []
        : [denied("gpve-revoked", [`request.groups.exists(each, each in [${groups}])`])]),
      { type: "Node", name: "node" },
      { type: "RBAC", name: "rbac" },
    ],
  });
}

/** Where nobody answers. Its path is what a tenant reads who tries. */
export const DEAD_END = JSON.stringify({
  apiVersion: "v1",
  kind: "Config",
  "current-context": "nobody",
  clusters: [
    { name: "nobody", cluster: { server: "https://127.0.0.1:1/this-belongs-to-the-platform-and-stays" } },
  ],
  users: [{ name: "nobody", user: {} }],
  contexts: [{ name: "nobody", context: { cluster: "nobody", user: "nobody" } }],
});

/** Versions that read such a configuration. */
export function hasPlatformRights(version: string): boolean {
  const [major = 0, minor = 0] = version.split(".").map(Number);
  return major > 1 || minor >= 32;
}
