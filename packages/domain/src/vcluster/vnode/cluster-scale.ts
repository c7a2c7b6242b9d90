// A change of a cluster's number of workers of which nobody knows yet how it ends. Written down, so that whichever server leads
// then sees to what counts, also when the one that began it is gone.
import { given } from "@gpve/contracts/given.ts";
import { unknownShape } from "../../record/collection.ts";

export interface ToldNode {
  readonly node: string;
  /** Of its task. */
  readonly upid: string;
}

export interface ClusterScale {
  /** Of the cluster. */
  readonly key: string;
  /** Absent: workers of the cluster itself. */
  readonly pool?: string;
  readonly from: number;
  readonly to: number;
  /** By which the same change is known again. */
  readonly requestId: string;
  /** Those of its nodes that have begun, as far as that was written down. */
  readonly told: readonly ToldNode[];
}

/** Written by servers, and by them alone. */
export const scaleCollection = {
  prefix: "/gpve/vcluster-scales/",
  decode: (json: unknown): ClusterScale => {
    const { key, pool, from, to, requestId, told } = (json ?? {}) as Partial<ClusterScale>;
    if (
      typeof key !== "string" ||
      typeof from !== "number" ||
      typeof to !== "number" ||
      typeof requestId !== "string" ||
      !Array.isArray(told)
    )
      throw unknownShape("a change of a virtual cluster's workers");
    return { key, from, to, requestId, told, ...given({ pool }) };
  },
};

export function scaleId({ key, pool = "" }: Pick<ClusterScale, "key" | "pool">): string {
  return `${key}/${pool}`;
}
