// Kubeconfigs that are given out: each is a certificate of a group of its own, bound to a role by an object that can be
// deleted.
import { randomBytes } from "node:crypto";
import { AppError } from "@gpve/contracts/errors.ts";
import { serverName } from "@gpve/domain/vcluster/cluster-front.ts";
import {
  KUBECONFIG_BINDINGS,
  KUBECONFIG_ENDS_AT,
  KUBECONFIG_GROUP,
  KUBECONFIG_ID,
  KUBECONFIG_USER,
  endedKubeconfigs,
  type KubeconfigBinding,
  kubeconfigText,
} from "@gpve/domain/vcluster/kubeconfig.ts";
import {
  calledOf,
  type IssuedKubeconfig,
  type KeptCluster,
  type KubeconfigAsk,
} from "@gpve/domain/vcluster/ports.ts";
import { ignore } from "@gpve/kit/background.ts";
import type { Clock } from "@gpve/kit/clock.ts";
import { untilAllowed } from "./await-rights.ts";
import type { ClusterKeys } from "./cluster-keys.ts";
import { kubeCall, kubeCreate, type KubeCredentials, refused } from "./kube-api.ts";

/** So many of those that have ended go when another is given out: more than come. */
const SWEPT_AT_ONCE = 20;

type KubeCall = typeof kubeCall;

export interface RoleBinding {
  readonly name: string;
  readonly role: string;
  readonly subject: { readonly kind: "User" | "Group"; readonly name: string };
  readonly annotations?: Readonly<Record<string, string>>;
}

export async function bindRole(
  credentials: KubeCredentials,
  { name, role, subject, annotations = {} }: RoleBinding,
  signal: AbortSignal,
): Promise<void> {
  const group = "rbac.authorization.k8s.io";
  const binding = {
    apiVersion: `${group}/v1`,
    kind: "ClusterRoleBinding",
    metadata: { name, labels: { "app.kubernetes.io/managed-by": "gpve" }, annotations },
    roleRef: { apiGroup: group, kind: "ClusterRole", name: role },
    subjects: [{ apiGroup: group, ...subject }],
  };
  await kubeCreate(credentials, KUBECONFIG_BINDINGS, binding, signal);
}

export async function issueKubeconfig(
  at: { readonly cluster: KeptCluster; readonly server: string; readonly keys: ClusterKeys },
  credentials: KubeCredentials,
  { user, lifetimeMs, clock, server: asked }: KubeconfigAsk & { readonly clock: Clock },
  signal: AbortSignal,
): Promise<IssuedKubeconfig> {
  const now = clock.now();
  const { cluster, server, keys } = at;
  // A group of its own, so that it can be revoked alone. Never system:masters, which nothing can take away.
  const id = randomBytes(8).toString("hex");
  const group = `${KUBECONFIG_GROUP}${id}`;
  const subject = { kind: "Group", name: group } as const;
  // Who looks for the one of somebody who has left finds it by these.
  const annotations = {
    [KUBECONFIG_USER]: user,
    [KUBECONFIG_ENDS_AT]: new Date(now + lifetimeMs).toISOString(),
  };
  await bindRole(credentials, { name: group, role: "cluster-admin", subject, annotations }, signal);
  await sweepEnded(credentials, now, signal).catch((err: unknown) =>
    ignore(err, "what is left of ended ones allows nobody anything, and goes another time"),
  );
  const { certPem, keyPem } = await keys.issue(
    { commonName: user, organisation: group, usage: "client" },
    lifetimeMs,
  );
  await untilAllowed(group, { credentials, clock, signal });
  const named = {
    name: shownName(cluster),
    user: `${user}@${shownName(cluster)}`,
    server,
    // Whoever listens there has other names, and knows by this one whom to pass it on to.
    ...(asked === undefined ? {} : { serverName: serverName(calledOf(cluster), cluster.tenant) }),
  };
  const kubeconfig = kubeconfigText({ ...named, caPem: keys.caPem, certPem, keyPem }, (plain) =>
    Buffer.from(plain).toString("base64"),
  );
  return { id, kubeconfig, expiresAt: now + lifetimeMs };
}

/** Bindings of certificates that have ended: whoever gets one every minute would fill the cluster with them. */
export async function sweepEnded(
  credentials: KubeCredentials,
  now: number,
  signal: AbortSignal,
  call: KubeCall = kubeCall,
): Promise<void> {
  const { status, body } = await call(credentials, { method: "GET", path: KUBECONFIG_BINDINGS }, signal);
  if (status >= 300) throw refused(`GET ${KUBECONFIG_BINDINGS}`, status, body);
  const { items = [] } = JSON.parse(body) as { readonly items?: readonly KubeconfigBinding[] };
  for (const { metadata } of endedKubeconfigs(items, now).slice(0, SWEPT_AT_ONCE))
    await call(
      credentials,
      { method: "DELETE", path: `${KUBECONFIG_BINDINGS}/${encodeURIComponent(metadata.name)}` },
      signal,
    );
}

/** Of context, cluster and user: two tenants' clusters of one name stay two in one file. */
function shownName(cluster: KeptCluster): string {
  return cluster.called === undefined ? cluster.name : `${cluster.called}.${cluster.tenant}`;
}

export interface RevokeAt {
  readonly cluster: KeptCluster;
  readonly credentials: KubeCredentials;
  readonly keys: Pick<ClusterKeys, "revoked" | "revoke">;
  /** Has its API server deny whatever the keys say. */
  readonly deny: () => void;
}

/** Denied first: whatever it is bound to in the cluster is for its administrators to say. */
export async function revokeKubeconfig(
  { cluster, credentials, keys, deny }: RevokeAt,
  id: string,
  signal: AbortSignal,
  call: KubeCall = kubeCall,
): Promise<void> {
  if (!KUBECONFIG_ID.test(id)) throw new AppError("request.invalid", `'${id}' is no id of a kubeconfig`);
  const wasDenied = Object.hasOwn(keys.revoked, id);
  if (!wasDenied) keys.revoke(id);
  // Also again: whoever stopped in between may not have been told.
  deny();
  const path = `${KUBECONFIG_BINDINGS}/${encodeURIComponent(`${KUBECONFIG_GROUP}${id}`)}`;
  const { status, body } = await call(credentials, { method: "DELETE", path }, signal);
  if (status === 404 && wasDenied) return;
  if (status === 404)
    throw new AppError("object.not_found", `virtual cluster ${cluster.name} has no kubeconfig '${id}'`);
  if (status >= 300) throw refused(`DELETE ${path}`, status, body);
}
