// Tasks that servers run themselves carry a node's name but are unknown to its agent. Calls about those of this server
// stay here; how one of another server stands is in the records that all servers have.
import { AppError } from "@gpve/contracts/errors.ts";
import type { AgentCall, AgentConnection, AgentDirectory } from "@gpve/domain/node/agent-port.ts";
import { isServerTask } from "@gpve/domain/task/operation-tasks.ts";
import type { TaskDirectory } from "@gpve/domain/task/ports.ts";
import { taskFromUpid } from "@gpve/domain/task/task.ts";
import { taskOfRecord, taskRecordId, type TaskRecord } from "@gpve/domain/task/task-record.ts";
import type { Collection } from "@gpve/store/records/port.ts";

const STATUS = "GET /nodes/{node}/tasks/{upid}/status";

/** `local` serves the tasks of this server, and the status of those that `publishedServerTasks` knows. */
export function withServerTasks(
  agents: AgentDirectory,
  tasks: TaskDirectory,
  local: AgentConnection | undefined,
): AgentDirectory {
  if (local === undefined) return agents;
  return {
    connection(node) {
      const agent = agents.connection(node);
      const isHere = node === local.node;
      if (!isHere && agent === undefined) return undefined;
      const staysHere = (call: AgentCall): boolean => {
        const upid = call.params["upid"];
        if (typeof upid !== "string") return false;
        return isHere ? tasks.get(upid) !== undefined : call.decision.route === STATUS && isServers(upid);
      };
      return {
        node,
        call: (call, signal) => (agent === undefined || staysHere(call) ? local : agent).call(call, signal),
        ...(agent?.tunnel === undefined ? {} : { tunnel: agent.tunnel.bind(agent) }),
      };
    },
  };
}

/** What the cluster knows of tasks that servers run; there is nothing to stop them with. */
export function publishedServerTasks(records: Pick<Collection<TaskRecord>, "get">): TaskDirectory {
  return {
    get: (upid) => {
      const id = isServers(upid) ? taskRecordId(upid) : undefined;
      const record = id === undefined ? undefined : records.get(id)?.value;
      return record === undefined ? undefined : taskOfRecord(record);
    },
    list: () => [],
    stop: (upid) =>
      Promise.reject(
        new AppError("feature.unsupported", `task ${upid} runs in another server: stop it there`),
      ),
  };
}

function isServers(upid: string): boolean {
  const task = taskFromUpid(upid);
  return task !== undefined && isServerTask(task);
}
