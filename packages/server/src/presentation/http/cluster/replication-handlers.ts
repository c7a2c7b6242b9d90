// PVE's methods of replication. What PVE asks the node, every server here has in memory; the log is the node's.
import { given } from "@gpve/contracts/given.ts";
import type { AgentReply } from "@gpve/domain/node/agent-port.ts";
import { PveReply, type PveHandlers } from "@gpve/domain/request/handler.ts";
import type { RequestContext } from "@gpve/domain/request/context.ts";
import { splitList } from "@gpve/domain/schema/list.ts";
import type { ReplicationJobs } from "../../../application/replication/replication-jobs.ts";

export interface ReplicationHandlerDeps {
  readonly jobs: ReplicationJobs;
  /** Lines of a task's log, and how many there are in all. */
  readonly taskLog: (
    task: { readonly upid: string; readonly node: string },
    range: { readonly start: number; readonly limit: number },
    ctx: RequestContext,
  ) => Promise<Pick<AgentReply, "data" | "total">>;
}

const DEFAULT_LINES = 50;

export function createReplicationHandlers({ jobs, taskLog }: ReplicationHandlerDeps): PveHandlers {
  return {
    "GET /cluster/replication": (_params, ctx) => jobs.list(ctx),
    "POST /cluster/replication": async ({ id, target, type: _type, ...options }, ctx) => {
      await jobs.create(id, target, given(options), ctx);
      return null;
    },
    "GET /cluster/replication/{id}": ({ id }, ctx) => jobs.get(id, ctx),
    "PUT /cluster/replication/{id}": async ({ id, delete: remove, digest, ...options }, ctx) => {
      await jobs.update(id, given(options), { remove: splitList(remove ?? ""), digest }, ctx);
      return null;
    },
    "DELETE /cluster/replication/{id}": async ({ id, keep = false, force = false }, ctx) => {
      await jobs.remove(id, { keep, force }, ctx);
      return null;
    },
    "GET /nodes/{node}/replication": ({ node, guest }, ctx) => jobs.status(node, guest, ctx),
    "GET /nodes/{node}/replication/{id}/status": ({ node, id }, ctx) => jobs.statusOf(node, id, ctx),
    "GET /nodes/{node}/replication/{id}/log": async ({ node, id, start = 0, limit = DEFAULT_LINES }, ctx) => {
      const task = jobs.lastRun(node, id, ctx);
      if (task === undefined) return [];
      const { data, total } = await taskLog(task, { start, limit }, ctx);
      return new PveReply({ data, ...given({ total }) });
    },
    "POST /nodes/{node}/replication/{id}/schedule_now": async ({ node, id }, ctx) => {
      await jobs.scheduleNow(node, id, ctx);
      return null;
    },
  };
}
