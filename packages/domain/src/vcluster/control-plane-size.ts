// What a control plane may take of its node: it is told to the kernel part by part, so that a tenant who fills his API server fills no
// other one. Nothing of it is set aside.
import { given } from "@gpve/contracts/given.ts";
import type { ClusterPart } from "./cluster-part.ts";
import { invalidSpec } from "./invalid-spec.ts";
import type { Tier } from "./tier.ts";
import { readBytes, readCpus } from "./vnode/vnode.ts";

export interface ControlPlaneSize {
  /** That each of its parts may use. */
  readonly cpus: number;
  /** Of all of its parts together. */
  readonly memoryBytes: number;
}

const GIB = 2 ** 30;

/** Where a request does not say: several times what an idle one takes. */
const TIER_SIZES: Readonly<Record<Tier, ControlPlaneSize>> = {
  Starter: { cpus: 2, memoryBytes: 2 * GIB },
  Standard: { cpus: 4, memoryBytes: 4 * GIB },
  Performance: { cpus: 8, memoryBytes: 8 * GIB },
  Enterprise: { cpus: 16, memoryBytes: 16 * GIB },
};

/** Less, and it does not come up in a time that anybody waits for, or not at all. */
const LEAST: ControlPlaneSize = { cpus: 0.5, memoryBytes: GIB };

/** Of the memory; what passes connections on, where there is that, is none of theirs. */
const WEIGHTS: Readonly<Record<Exclude<ClusterPart, "api-balancer">, number>> = {
  "kube-apiserver": 7,
  etcd: 4,
  "kube-controller-manager": 3,
  "kube-scheduler": 2,
};

const BALANCER_BYTES = 256 * 2 ** 20;
/** Where a program begins to collect more eagerly, rather than to be ended. */
const COLLECTS_AT = 0.9;

export function controlPlaneSizeOf(spec: {
  readonly tier: Tier;
  readonly controlPlaneSize?: ControlPlaneSize;
}): ControlPlaneSize {
  return spec.controlPlaneSize ?? TIER_SIZES[spec.tier];
}

/** What of it was asked for, and is not as the tier has it anyway. */
export function askedControlPlane(spec: {
  readonly tier: Tier;
  readonly controlPlaneSize?: ControlPlaneSize;
}): Partial<ControlPlaneSize> {
  const { cpus, memoryBytes } = spec.controlPlaneSize ?? {};
  const tier = TIER_SIZES[spec.tier];
  return given({
    cpus: cpus === tier.cpus ? undefined : cpus,
    memoryBytes: memoryBytes === tier.memoryBytes ? undefined : memoryBytes,
  });
}

/** undefined: as the tier has it. */
export function readControlPlaneSize(
  resources: Readonly<Record<string, unknown>> | undefined,
  tier: Tier,
): ControlPlaneSize | undefined {
  const { cpu, memory } = resources ?? {};
  if (cpu === undefined && memory === undefined) return undefined;
  const { cpus, memoryBytes } = TIER_SIZES[tier];
  const size = {
    cpus: cpu === undefined ? cpus : (readCpus(cpu) ?? 0),
    memoryBytes: memory === undefined ? memoryBytes : (readBytes(memory) ?? 0),
  };
  if (size.cpus < LEAST.cpus)
    throw invalidSpec("controlPlane.resources.cpu", "must be CPUs, such as 2 or 500m, and at least 500m");
  if (size.memoryBytes < LEAST.memoryBytes)
    throw invalidSpec("controlPlane.resources.memory", "must be bytes, such as 2Gi, and at least 1Gi");
  return size.cpus === cpus && size.memoryBytes === memoryBytes ? undefined : size;
}

/** `parts`: all of the cluster's on this node. */
export function partBounds(
  part: ClusterPart,
  parts: readonly ClusterPart[],
  { cpus, memoryBytes }: ControlPlaneSize,
): { readonly cpus: number; readonly memoryBytes: number; readonly goMemoryBytes: number } {
  const weight = (each: ClusterPart): number => (each === "api-balancer" ? 0 : WEIGHTS[each]);
  const all = parts.reduce((sum, each) => sum + weight(each), 0);
  const bytes = part === "api-balancer" ? BALANCER_BYTES : Math.floor((memoryBytes * weight(part)) / all);
  return { cpus, memoryBytes: bytes, goMemoryBytes: Math.floor(bytes * COLLECTS_AT) };
}
