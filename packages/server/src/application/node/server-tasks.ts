// Tasks that servers run themselves carry a node's name but are unknown to its agent. Calls about those of this server
// stay here; how those of the others stand is in the records that all servers have.
import { isObject } from "@gpve/contracts/json-object.ts";
import type { AgentCall, AgentConnection, AgentDirectory, AgentReply } from "@gpve/domain/node/agent-port.ts";
import { requireValidCall } from "@gpve/domain/schema/validate-params.ts";
import { isServerTask } from "@gpve/domain/task/operation-tasks.ts";
import type { TaskDirectory } from "@gpve/domain/task/ports.ts";
import { DEFAULT_TASK_LIMIT, newestFirst, type TaskRow } from "@gpve/domain/task/task-list.ts";
import { taskFromUpid } from "@gpve/domain/task/task.ts";
import type { Clock } from "@gpve/kit/clock.ts";

const LIST = "GET /nodes/{node}/tasks";
const LOG = "GET /nodes/{node}/tasks/{upid}/log";
const FROM_RECORDS: ReadonlySet<string> = new Set([
  "GET /nodes/{node}/tasks/{upid}/status",
  "DELETE /nodes/{node}/tasks/{upid}",
]);
const OF_ONE: ReadonlySet<string> = new Set([...FROM_RECORDS, LOG]);
const TELL_TRIES = 20;
const TELL_PAUSE_MS = 100;

export interface ServerTasksDeps {
  readonly localNode: string;
  /** What this server runs. */
  readonly own: TaskDirectory;
  /** What all servers run, as far as they have told. */
  readonly published: Pick<TaskDirectory, "get">;
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
      if (node !== localNode && agent === undefined) return undefined;
      return {
        node,
        async call(call, signal) {
          if (agent === undefined) return serve(node).call(call, signal);
          const { route } = call.decision;
          if (route === LIST) return listBoth([agent, serve(node)], call, signal);
          const upid = call.params["upid"];
          if (typeof upid !== "string") return agent.call(call, signal);
          // What it does for a guest of another node is asked for in that node's name as well.
          if (own.get(upid) !== undefined) return serve(node).call(call, signal);
          if (!FROM_RECORDS.has(route) || !isServers(upid)) return agent.call(call, signal);
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

/** The node in whose name a call about a task of a server is to be made; undefined = the one that is asked. */
export function serverTaskNode(
  route: string,
  params: AgentCall["params"],
  knowsNode: (node: string) => boolean,
): string | undefined {
  const upid = params["upid"];
  if (typeof upid !== "string" || !OF_ONE.has(route) || !isServers(upid)) return undefined;
  // A server that is asked about a guest elsewhere names its task after its own node: the log lies there.
  const node = taskFromUpid(upid)?.node;
  return node !== undefined && knowsNode(node) ? node : undefined;
}

/** A page of what the node's agent runs and of what servers run in its name. */
async function listBoth(
  sources: readonly AgentConnection[],
  call: AgentCall,
  signal: AbortSignal,
): Promise<AgentReply> {
  const asked = requireValidCall(LIST, call.params, call.source ?? "form");
  const { start = 0, limit = DEFAULT_TASK_LIMIT } = asked as {
    readonly start?: number;
    readonly limit?: number;
  };
  const params = { ...call.params, start: "0", limit: String(start + limit) };
  const replies = await Promise.all(sources.map((source) => source.call({ ...call, params }, signal)));
  const rows = replies.flatMap(({ data }) => (Array.isArray(data) ? data : [])).filter(isObject);
  return {
    data: (rows as readonly unknown[] as readonly TaskRow[])
      .toSorted(newestFirst)
      .slice(start, start + limit),
    total: replies.reduce((sum, { total = 0 }) => sum + total, 0),
  };
}

function isServers(upid: string): boolean {
  const task = taskFromUpid(upid);
  return task !== undefined && isServerTask(task);
}
