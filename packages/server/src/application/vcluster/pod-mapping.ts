// Where pods of virtual clusters run. Their nodes know it, also while a cluster sleeps.
import { AppError } from "@gpve/contracts/errors.ts";
import type { VclusterPodRow } from "@gpve/contracts/agent/agent-messages.ts";
import type { MappedPod } from "@gpve/contracts/v1/vc-answers.ts";
import { AgentUnreachable } from "@gpve/domain/node/agent-port.ts";
import type { NodeBoard } from "@gpve/domain/node/runtime.ts";
import type { RequestContext } from "@gpve/domain/request/context.ts";
import { nodesOf, vclusterCollection } from "@gpve/domain/vcluster/vcluster-record.ts";
import type { Records } from "@gpve/store/records/port.ts";
import type { NodeCalls } from "../node/call-agent.ts";

export interface PodMappingDeps {
  readonly records: Records;
  readonly board: NodeBoard;
  readonly calls: Pick<NodeCalls, "call">;
}

export class PodMapping {
  readonly #deps: PodMappingDeps;

  constructor(deps: PodMappingDeps) {
    this.#deps = deps;
  }

  async of(
    asked: {
      /** Its key. */
      readonly vcluster: string;
      readonly pod: string;
      readonly namespace: string;
    },
    ctx: RequestContext,
  ): Promise<MappedPod> {
    const { records, calls } = this.#deps;
    const { vcluster, pod, namespace } = asked;
    const found = records.collection(vclusterCollection).get(vcluster)?.value;
    if (found === undefined)
      throw new AppError("object.not_found", `there is no VirtualCluster '${vcluster}'`);
    const { tenant } = found;
    const route = "GET /gpve/nodes/{node}/vclusters/{vcluster}/pods" as const;
    // One that is away keeps nobody from what the others know.
    let away: AgentUnreachable | undefined;
    for (const node of nodesOf(found)) {
      try {
        const { data } = await calls.call(node, route, { vcluster, tenant }, ctx);
        const row = data.find((each) => each.namespace === namespace && each.name === pod);
        if (row !== undefined) return this.#mapped(node, row);
      } catch (err) {
        if (!(err instanceof AgentUnreachable)) throw err;
        away = err;
      }
    }
    if (away !== undefined) throw away;
    throw new AppError(
      "object.not_found",
      `no pod '${pod}' in namespace '${namespace}' runs on a worker of '${found.name}'`,
    );
  }

  /** What runs on a node. */
  async on(node: string, ctx: RequestContext): Promise<readonly MappedPod[]> {
    const { data } = await this.#deps.calls.call(node, "GET /gpve/nodes/{node}/vcluster-pods", {}, ctx);
    return data.map((row) => this.#mapped(node, row));
  }

  #mapped(node: string, { vcluster, tenant, namespace, name, vnode }: VclusterPodRow): MappedPod {
    const usage = this.#deps.board.get(node)?.report?.usage;
    const place = { vcluster, tenant, namespace, pod: name, vnode, node };
    if (usage === undefined) return place;
    const { cpu, memory, loadavg } = usage;
    return {
      ...place,
      nodeUsage: { cpu, memoryUsedBytes: memory.used, memoryTotalBytes: memory.total, load: [...loadavg] },
    };
  }
}
