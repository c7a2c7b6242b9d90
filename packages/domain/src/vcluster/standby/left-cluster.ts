// What deleted virtual clusters have on nodes that were away then: it goes as soon as its node is back.
import { unknownShape } from "../../record/collection.ts";

/** Written by servers, and by them alone. */
export interface LeftCluster {
  readonly node: string;
  /** By which the node knows it. */
  readonly key: string;
  readonly tenant: string;
}

export const leftClusterCollection = {
  prefix: "/gpve/left-vclusters/",
  decode: (json: unknown): LeftCluster => {
    const { node, key, tenant } = (json ?? {}) as Partial<LeftCluster>;
    if (typeof node !== "string" || typeof key !== "string" || typeof tenant !== "string")
      throw unknownShape("a note of a deleted virtual cluster");
    return { node, key, tenant };
  },
};

export function leftClusterId({ node, key }: Pick<LeftCluster, "node" | "key">): string {
  return `${node}/${key}`;
}
