// Blue and green: the load balancer before a cluster is turned to another one beside it. Only to one that is well and
// whose API answers to the load balancer's name; the old one is not touched, so that the way back is the same way.
import { AppError } from "@gpve/contracts/errors.ts";
import type { ClusterFolder } from "../folder/cluster-folder.ts";
import { haproxyConfig } from "../render/haproxy.ts";
import type { ClusterStatus } from "../status/cluster-status.ts";

type Place = Pick<ClusterFolder, "cluster" | "machines">;

export interface SwitchRequest {
  /** Whose load balancer it is. */
  readonly front: Place;
  readonly target: Place;
  /** The target's, of this moment. */
  readonly checks: ClusterStatus["checks"];
}

/** The load balancer's new configuration. */
export function switchedFront({ front, target, checks }: SwitchRequest): string {
  const { endpoint, metadata } = front.cluster;
  const balancer = endpoint.loadBalancer;
  if (balancer?.backendsManaged !== "haproxy") {
    throw refused(
      "front-missing",
      `${metadata.name} has no load balancer of ours before it: endpoint.loadBalancer with backendsManaged: haproxy`,
    );
  }
  const { name } = target.cluster.metadata;
  const own = target.cluster.endpoint;
  const names = [own.vip, own.dns, own.loadBalancer?.address, ...own.extraSANs];
  if (!names.includes(balancer.address)) {
    throw refused(
      "front-unnamed",
      `the API of ${name} has no certificate for ${balancer.address}; it has ${names.filter(Boolean).join(", ")}`,
    );
  }
  const bad = checks.filter(({ isFine }) => !isFine);
  if (bad.length > 0) {
    const why = bad.map((check) => `${check.name}: ${check.detail}`).join("; ");
    throw refused("front-unready", `${name} is not well: ${why}`);
  }
  return haproxyConfig(front.cluster, target);
}

const refused = (finding: string, message: string): AppError =>
  new AppError("object.conflict", message, {
    data: { finding, next: "The load balancer was left as it is." },
  });
