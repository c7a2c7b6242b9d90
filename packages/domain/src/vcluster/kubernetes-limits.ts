// What Kubernetes itself does not take, though it is written as it should be: refused before anything is made, since its programs
// would say so when the cluster is half there, and not to whom asked.
import { addressAt, readCidr } from "./cidr.ts";
import { invalidSpec } from "./invalid-spec.ts";
import type { OidcIssuer } from "./issuer.ts";
import type { WorkerPool } from "./vnode/worker-pools.ts";
import type { VnodeTaint } from "./vnode/vnode.ts";

interface Limited {
  readonly podCidr: string;
  readonly serviceCidr: string;
  readonly dnsDomain: string;
  readonly oidc?: OidcIssuer;
  readonly pools?: readonly WorkerPool[];
}

/** Controllers deal out /24s, and at most 2^16 of them. */
const LEAST_POD_PREFIX = 8;
const MOST_LABEL = 63;
/** A Service's name, its namespace's and this are 253 together, or nobody can look it up. */
const MOST_DOMAIN = 253 - "..svc.".length - 2 * MOST_LABEL;
const SUBDOMAIN = /^[a-z0-9](?:[a-z0-9-]*[a-z0-9])?(?:\.[a-z0-9](?:[a-z0-9-]*[a-z0-9])?)*$/;
/** What its controllers say of a node, and take back. */
const KUBERNETES_OWN = /^node\.(?:cloudprovider\.)?kubernetes\.io\//;

/** Whom its service accounts are vouched for by. */
export function accountIssuer(dnsDomain: string): string {
  return `https://kubernetes.default.svc.${dnsDomain}`;
}

export function requireWorkable({ podCidr, serviceCidr, dnsDomain, oidc, pools = [] }: Limited): void {
  requireCanonical("networking.podCIDR", podCidr);
  requireCanonical("networking.serviceCIDR", serviceCidr);
  if ((readCidr(podCidr)?.prefix ?? 32) < LEAST_POD_PREFIX)
    throw invalidSpec("networking.podCIDR", `is larger than a /${LEAST_POD_PREFIX}, which is the most`);
  if (dnsDomain.length > MOST_DOMAIN || dnsDomain.split(".").some(({ length }) => length > MOST_LABEL))
    throw invalidSpec(
      "networking.dnsDomain",
      `has more than ${MOST_DOMAIN} characters, or more than ${MOST_LABEL} between two dots`,
    );
  if (oidc?.issuerUrl === accountIssuer(dnsDomain))
    throw invalidSpec(
      "controlPlane.oidc.issuerUrl",
      "is who vouches for the cluster's own accounts: name another",
    );
  for (const [at, pool] of pools.entries()) {
    for (const key of Object.keys(pool.labels)) requireKey(`workerNodes.pools[${at}].labels`, key);
    requireTaints(`workerNodes.pools[${at}].taints`, pool.taints);
  }
}

/** 010.0.0.0/16 is 8.0.0.0/16 to some programs. */
function requireCanonical(field: string, text: string): void {
  const network = readCidr(text);
  const meant = network === undefined ? text : `${addressAt(network, 0)}/${network.prefix}`;
  if (meant !== text) throw invalidSpec(field, `'${text}' is written as nobody else does: say ${meant}`);
}

function requireTaints(field: string, taints: readonly VnodeTaint[]): void {
  const seen = new Set<string>();
  for (const { key, effect } of taints) {
    requireKey(field, key);
    if (KUBERNETES_OWN.test(key)) throw invalidSpec(field, `'${key}' is said by Kubernetes itself`);
    if (seen.has(`${key} ${effect}`)) throw invalidSpec(field, `has '${key}' with ${effect} twice`);
    seen.add(`${key} ${effect}`);
  }
}

function requireKey(field: string, key: string): void {
  const at = key.indexOf("/");
  if (at < 0 || SUBDOMAIN.test(key.slice(0, at))) return;
  throw invalidSpec(field, `'${key.slice(0, at)}' before the / of '${key}' is no domain`);
}
