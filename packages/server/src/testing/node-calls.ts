// The way to nodes for tests that are not about permissions: whoever asks may.
import { decideAnything } from "@gpve/domain/access/testing/decided.ts";
import type { AgentDirectory } from "@gpve/domain/node/agent-port.ts";
import { NodeCalls, type NodeCallsDeps } from "../application/node/call-agent.ts";

/** Nothing is counted, and nobody else does it. */
export const straight: Pick<NodeCallsDeps, "gate" | "divert"> = {
  gate: { pass: (_call, _ask, send) => send() },
  divert: async () => undefined,
};

export function nodeCalls(agents: AgentDirectory, localNode = "n1"): NodeCalls {
  return new NodeCalls({ agents: () => agents, localNode, decide: decideAnything, ...straight });
}
