// Which nodes a new virtual cluster is on, one part after the other: each sees where those before it go, and no two are on one
// node. Pure, but for the state, which has the parts in it meanwhile and is left as it was.
import { given } from "@gpve/contracts/given.ts";
import type { ClusterState } from "@gpve/domain/scheduler/cluster-state.ts";
import { explain, type Explanation } from "@gpve/domain/scheduler/explain.ts";
import type { CustomPlugin } from "@gpve/domain/scheduler/plugin.ts";
import type { Policy } from "@gpve/domain/scheduler/policy.ts";
import { MOST_OVERLAY_NODES } from "@gpve/domain/vcluster/overlay.ts";
import { nodeFilter } from "./cluster-filters.ts";
import { type AskedCluster, partName, type PartName, partRequest } from "./cluster-request.ts";

export interface AskedParts {
  readonly cluster: AskedCluster;
  /** For a node with a control plane, and for one with workers alone. */
  readonly filters: { readonly control: readonly CustomPlugin[]; readonly workers: readonly CustomPlugin[] };
  /** Which node the first part is on, whatever speaks against it; "" = any. */
  readonly home: string;
}

export interface DecidedPart {
  readonly part: PartName;
  readonly node: string;
  /** Absent: somebody named the node. */
  readonly explanation?: Explanation;
}

export interface DecidedParts {
  readonly parts: readonly DecidedPart[];
  /** Of the part that no node can have. */
  readonly refused?: Explanation;
}

export function decideParts(state: ClusterState, policy: Policy, asked: AskedParts): DecidedParts {
  const { spread, replicas, workers } = asked.cluster.spec;
  const among = (count: number, of = count): DecidedParts => decideAmong(state, policy, asked, { count, of });
  if (replicas > 1) return among(replicas);
  if (spread !== true) return among(1);
  // A worker on each, as far as there are nodes; where there are more workers than nodes, on as many as have room for their share.
  const most = Math.max(workers, 2);
  const each = among(Math.min(MOST_OVERLAY_NODES, most), most);
  let refused = each.parts.length === 0 ? each : undefined;
  for (let count = each.parts.length; count >= 2; count--) {
    const outcome = among(count);
    if (outcome.refused === undefined) return outcome;
    refused ??= outcome;
  }
  const alone = among(1);
  return alone.refused === undefined ? alone : (refused ?? alone);
}

function decideAmong(
  state: ClusterState,
  policy: Policy,
  { cluster, filters, home }: AskedParts,
  { count, of }: { readonly count: number; readonly of: number },
): DecidedParts {
  const parts: DecidedPart[] = [];
  const tried: string[] = [];
  const taken = nodeFilter("OwnParts", ({ name }) =>
    parts.some(({ node }) => node === name) ? "a part of it is there already" : undefined,
  );
  try {
    for (let at = 0; at < count; at++) {
      const request = partRequest(cluster, { at, of });
      const part = partName(cluster.spec, at);
      const isNamed = at === 0 && home !== "";
      const own = at === 0 || cluster.spec.replicas > 1 ? filters.control : filters.workers;
      const custom = [...policy.custom, ...own, taken];
      const explanation = isNamed ? undefined : explain(state, request, { ...policy, custom });
      const node = explanation === undefined ? home : explanation.node;
      if (node === undefined) return { parts, ...given({ refused: explanation }) };
      parts.push({ part, node, ...given({ explanation }) });
      state.place({ request, node, counts: true });
      tried.push(request.id);
    }
    return { parts };
  } finally {
    for (const id of tried) state.remove(id);
  }
}
