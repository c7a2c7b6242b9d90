import type { PveHandlers } from "@gpve/domain/request/handler.ts";
import { clusterTasks, type RecentTasks } from "../../../application/task/recent-tasks.ts";

export function createClusterTaskHandlers(deps: { readonly tasks: RecentTasks }): PveHandlers {
  return { "GET /cluster/tasks": (_params, ctx) => clusterTasks(deps.tasks, ctx) };
}
