// Work on a virtual cluster of which only the end says what its spec is. It is written down with the record, so that whichever
// server is there then has the record follow.
import { given } from "@gpve/contracts/given.ts";
import type { VirtualClusterSpec } from "../vcluster-spec.ts";

export interface FollowedTask {
  /** Absent: its node is being asked, or nobody knows whether it has begun. */
  readonly upid?: string;
  /** When it was asked for. */
  readonly at: number;
  /** What it was before a backup took its place: it comes back where that fails, and counts until then. */
  readonly replaced?: VirtualClusterSpec;
  /** What it runs where that ends well. */
  readonly kubernetesVersion?: string;
}

interface Following {
  readonly spec: VirtualClusterSpec;
  readonly follows?: FollowedTask;
}

/** As it is when that has ended. */
export function followed<R extends Following>({ follows, ...record }: R, isDone: boolean) {
  const { replaced, kubernetesVersion } = follows ?? {};
  const spec = isDone ? { ...record.spec, ...given({ kubernetesVersion }) } : (replaced ?? record.spec);
  return { ...record, spec };
}
