// /nodes/{node}/tasks: the tasks of this node. Own tasks are always visible; those of others need a privilege.
import { missing } from "@gpve/domain/request/failures.ts";
import { AppError } from "@gpve/contracts/errors.ts";
import type { RequestContext } from "@gpve/domain/request/context.ts";
import { PveReply, type PveHandlers } from "@gpve/domain/request/handler.ts";
import type { TaskDirectory, TaskLogReader } from "@gpve/domain/task/ports.ts";
import { listTasks, taskRow } from "@gpve/domain/task/task-list.ts";
import { requireTaskAccess, taskViewer } from "@gpve/domain/task/task-access.ts";
import type { Task } from "@gpve/domain/task/task.ts";
import { requireUpid, upidError } from "@gpve/domain/task/upid.ts";
import type { Upid } from "@gpve/domain/task/upid.ts";

export interface TaskHandlerDeps {
  readonly tasks: TaskDirectory;
  readonly logs: TaskLogReader;
}

const DEFAULT_LOG_LIMIT = 50;

export function createTaskHandlers(deps: TaskHandlerDeps): PveHandlers {
  return {
    "GET /nodes/{node}/tasks": ({ node, ...query }, ctx) => {
      const { rows, total } = listTasks(deps.tasks.list(), query, taskViewer(node, ctx));
      return new PveReply({ data: rows, total });
    },

    "GET /nodes/{node}/tasks/{upid}/status": ({ node, upid }, ctx) => {
      const task = requireTask(deps.tasks, upid);
      requireTaskAccess(task, node, "Sys.Audit", ctx);
      const { endtime: _endtime, status: exitstatus, ...row } = taskRow(task);
      return task.endtime === undefined
        ? { ...row, status: "running" }
        : { ...row, status: "stopped", exitstatus };
    },

    "GET /nodes/{node}/tasks/{upid}/log": async ({ node, upid, start, limit, download }, ctx) => {
      const parsed = requireUpid(upid);
      requireTaskAccess({ authid: parsed.user }, node, "Sys.Audit", ctx);
      if (download === true) {
        if (start !== undefined || limit !== undefined)
          throw new AppError(
            "internal.error",
            "'download' cannot be used together with 'start' or 'limit' parameters",
          );
        return downloadLog(deps, upid, parsed);
      }
      const page = await deps.logs.read(upid, start ?? 0, limit ?? DEFAULT_LOG_LIMIT);
      if (page !== undefined && page.total > 0) return new PveReply({ data: page.rows, total: page.total });
      const isKnown = page !== undefined || deps.tasks.get(upid) !== undefined;
      const t = isKnown ? "no content" : "unable to open file - No such file or directory";
      return new PveReply({ data: [{ n: 1, t }], total: 1 });
    },

    "DELETE /nodes/{node}/tasks/{upid}": async ({ node, upid }, ctx) => {
      const task = requireTask(deps.tasks, upid);
      requireTaskAccess(task, node, "Sys.Modify", ctx);
      await deps.tasks.stop(upid, authidOf(ctx));
      return null;
    },
  };
}

function downloadLog({ logs }: TaskHandlerDeps, upid: string, { node, type, starttime }: Upid): PveReply {
  const body = logs.stream(upid);
  if (body === undefined) throw missing(`Could not open log of task '${upid}' - No such file or directory`);
  const time = new Date(starttime * 1_000).toISOString().replace(/\.\d+Z$/, "Z");
  return new PveReply({
    download: { contentType: "text/plain", fileName: `task-${node}-${type}-${time}.log`, body },
  });
}

function requireTask(tasks: TaskDirectory, upid: string): Task {
  requireUpid(upid);
  const task = tasks.get(upid);
  if (task === undefined) throw upidError("no such task");
  return task;
}

function authidOf(ctx: RequestContext): string {
  return ctx.actor?.authid ?? "";
}
