// Addresses of Services of type LoadBalancer: the upper numbers of the cluster's own subnet, which no worker gets. Workers'
// kube-proxies answer for them; the node sends what is for one to a worker.
import { type ClusterOverlay, LOWEST_GATEWAY } from "../overlay.ts";

/** Of ours; a Service that names none is ours too. */
export const BALANCER_CLASS = "gpve.io/node";
/** Last numbers of the addresses; those of workers are below. */
const [FIRST, LAST] = [210, 254];

export interface BalancedService {
  readonly metadata: {
    readonly name: string;
    readonly namespace: string;
    readonly creationTimestamp?: string;
    readonly deletionTimestamp?: string;
  };
  readonly spec: {
    readonly type?: string;
    readonly loadBalancerClass?: string;
    readonly loadBalancerIP?: string;
  };
  readonly status?: {
    readonly loadBalancer?: { readonly ingress?: readonly { readonly ip?: string }[] };
  };
}

export interface Balanced {
  readonly service: BalancedService;
  /** undefined = there is none for it. */
  readonly address: string | undefined;
}

/** `subnet`: "100.80.7". */
export function balancerAddresses(subnet: string): readonly string[] {
  return Array.from({ length: LAST - FIRST + 1 }, (_none, at) => `${subnet}.${FIRST + at}`);
}

/** Of a cluster on several nodes, which have the uppermost ones: also those that a node would get which joins later, so that no
 * Service loses its address to one. */
export function withoutGateways(
  pool: readonly string[],
  overlay: ClusterOverlay | undefined,
): readonly string[] {
  if (overlay === undefined) return pool;
  return pool.filter((address) => Number(address.slice(address.lastIndexOf(".") + 1)) < LOWEST_GATEWAY);
}

/** Whoever has one keeps it; then those that ask for one get it, then the others what is free, the oldest first. */
export function balance(services: readonly BalancedService[], pool: readonly string[]): readonly Balanced[] {
  const ours = services.filter(isOurs).toSorted((a, b) => (ageOf(a) < ageOf(b) ? -1 : 1));
  const given = new Map<BalancedService, string>();
  const free = new Set(pool);
  const give = (service: BalancedService, address: string | undefined): void => {
    if (given.has(service) || address === undefined || !free.delete(address)) return;
    given.set(service, address);
  };
  for (const service of ours) {
    const [has, asked] = [addressOf(service), service.spec.loadBalancerIP ?? ""];
    if (asked === "" || asked === has) give(service, has);
  }
  for (const service of ours) give(service, service.spec.loadBalancerIP);
  for (const service of ours) {
    const [next] = free;
    if ((service.spec.loadBalancerIP ?? "") === "") give(service, next);
  }
  return ours.map((service) => ({ service, address: given.get(service) }));
}

/** What its status says. */
export function addressOf({ status }: BalancedService): string | undefined {
  const ingress = status?.loadBalancer?.ingress ?? [];
  return ingress.length === 1 ? ingress[0]?.ip : undefined;
}

function isOurs({ metadata, spec }: BalancedService): boolean {
  return (
    spec.type === "LoadBalancer" &&
    metadata.deletionTimestamp === undefined &&
    (spec.loadBalancerClass ?? BALANCER_CLASS) === BALANCER_CLASS
  );
}

function ageOf({ metadata }: BalancedService): string {
  return `${metadata.creationTimestamp ?? ""} ${metadata.namespace}/${metadata.name}`;
}
