import type { PveHandlers } from "@gpve/domain/request/handler.ts";
import { taskRow } from "@gpve/domain/task/task-list.ts";
import type { RecentTasks } from "../../../application/task/recent-tasks.ts";

/** Auditors of / see all tasks, others their own and those of their tokens. Running ones have no end and status. */
export function createClusterTaskHandlers(deps: { readonly tasks: RecentTasks }): PveHandlers {
  return {
    "GET /cluster/tasks": (_params, ctx) => {
      const rows = deps.tasks.list().map(taskRow);
      if (ctx.access.has("/", ["Sys.Audit"])) return rows;
      return rows.filter(({ user }) => user === ctx.actor?.authid);
    },
  };
}
