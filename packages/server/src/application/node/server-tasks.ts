// Tasks that servers run themselves carry a node's name but are unknown to its agent. Calls about those of this server
// stay here; how one of another server stands is in the records that all servers have.
import { AppError } from "@gpve/contracts/errors.ts";
import type { AgentConnection, AgentDirectory } from "@gpve/domain/node/agent-port.ts";
import { isServerTask } from "@gpve/domain/task/operation-tasks.ts";
import type { TaskDirectory } from "@gpve/domain/task/ports.ts";
import { taskFromUpid } from "@gpve/domain/task/task.ts";
import { taskOfRecord, taskRecordId, type TaskRecord } from "@gpve/domain/task/task-record.ts";
import type { Clock } from "@gpve/kit/clock.ts";
import type { Collection } from "@gpve/store/records/port.ts";

const STATUS = "GET /nodes/{node}/tasks/{upid}/status";
const TELL_TRIES = 20;
const TELL_PAUSE_MS = 100;

export interface ServerTasksDeps {
  readonly localNode: string;
  /** What this server runs. */
  readonly own: TaskDirectory;
  /** What all servers run, as far as they have told. */
  readonly published: TaskDirectory;
  readonly clock: Pick<Clock, "sleep">;
  /** Answers in a node's name for tasks of servers; undefined = the agent of this process knows them. */
  readonly serve: ((node: string) => AgentConnection) | undefined;
}

export function withServerTasks(agents: AgentDirectory, deps: ServerTasksDeps): AgentDirectory {
  const { localNode, own, published, clock, serve } = deps;
  if (serve === undefined) return agents;
  return {
    connection(node) {
      const agent = agents.connection(node);
      const isHere = node === localNode;
      if (!isHere && agent === undefined) return undefined;
      return {
        node,
        async call(call, signal) {
          const upid = call.params["upid"];
          if (agent === undefined) return serve(node).call(call, signal);
          if (typeof upid !== "string") return agent.call(call, signal);
          if (isHere) return (own.get(upid) === undefined ? agent : serve(node)).call(call, signal);
          if (call.decision.route !== STATUS || !isServers(upid)) return agent.call(call, signal);
          // A server answers as soon as it has accepted a task, and tells the others a moment later.
          for (let tries = 0; tries < TELL_TRIES && published.get(upid) === undefined; tries++)
            await clock.sleep(TELL_PAUSE_MS, signal);
          return serve(node).call(call, signal);
        },
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
