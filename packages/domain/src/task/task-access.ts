import type { RequestContext } from "../request/context.ts";
import type { TaskViewer } from "./task-list.ts";
import { ownsTask, type Task } from "./task.ts";

/** As who a task list of a node is read. */
export function taskViewer(node: string, ctx: Pick<RequestContext, "actor" | "access">): TaskViewer {
  return { authid: ctx.actor?.authid ?? "", auditor: ctx.access.has(`/nodes/${node}`, ["Sys.Audit"]) };
}

/** Own tasks are everybody's to see and to end; those of others need a privilege on their node. */
export function requireTaskAccess(
  task: Pick<Task, "authid">,
  node: string,
  privilege: "Sys.Audit" | "Sys.Modify",
  ctx: Pick<RequestContext, "actor" | "access">,
): void {
  if (!ownsTask(ctx.actor?.authid ?? "", task)) ctx.access.require(`/nodes/${node}`, [privilege]);
}
