// What a task that a server leads asks of nodes, in its own name.
import type { AgentRoute, AskedOf, DataOf } from "@gpve/contracts/agent/agent-routes.ts";
import type { SystemWork } from "@gpve/domain/access/system-work.ts";
import type { StepContext } from "@gpve/kit/operation/definition.ts";
import { asSystem } from "../node/as-system.ts";
import type { NodeCalls, ReplyOf } from "../node/call-agent.ts";
import { type TaskEndDeps, untilTaskEnd } from "../node/until-task-end.ts";

/** Routes that begin a task on the node, and answer with its UPID. */
type TaskRoute = { [R in AgentRoute]: DataOf<R> extends string ? R : never }[AgentRoute];
type Leading = Pick<StepContext, "id" | "signal">;

export class WorkOnNodes {
  readonly #deps: TaskEndDeps & { readonly calls: Pick<NodeCalls, "call"> };
  readonly #work: SystemWork;

  constructor(deps: TaskEndDeps & { readonly calls: Pick<NodeCalls, "call"> }, work: SystemWork) {
    this.#deps = deps;
    this.#work = work;
  }

  ask<R extends AgentRoute>(
    { id, signal }: Leading,
    node: string,
    route: R,
    params: AskedOf<R>,
  ): Promise<ReplyOf<R>> {
    return this.#deps.calls.call(node, route, params, asSystem({ work: this.#work, requestId: id, signal }));
  }

  /** Resolves with the UPID of what the node did, when that has ended well. */
  async have<R extends TaskRoute>(ctx: Leading, node: string, route: R, params: AskedOf<R>): Promise<string> {
    const { data } = await this.ask(ctx, node, route, params);
    await this.end(ctx, node, data);
    return data;
  }

  end({ signal }: Leading, node: string, upid: string): Promise<void> {
    return untilTaskEnd(this.#deps, { node, upid, signal });
  }
}
