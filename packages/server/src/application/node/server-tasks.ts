// Tasks that a server runs itself carry a node's name but are unknown to its agent: calls about them stay here.
import type { AgentConnection, AgentDirectory } from "@gpve/domain/node/agent-port.ts";
import type { TaskDirectory } from "@gpve/domain/task/ports.ts";

export function withServerTasks(
  agents: AgentDirectory,
  tasks: TaskDirectory,
  local: AgentConnection | undefined,
): AgentDirectory {
  if (local === undefined) return agents;
  return {
    connection(node) {
      const agent = agents.connection(node);
      if (node !== local.node) return agent;
      return {
        node,
        call: (call, signal) => {
          const upid = call.params["upid"];
          const ours = typeof upid === "string" && tasks.get(upid) !== undefined;
          return (ours || agent === undefined ? local : agent).call(call, signal);
        },
        ...(agent?.tunnel === undefined ? {} : { tunnel: agent.tunnel.bind(agent) }),
      };
    },
  };
}
