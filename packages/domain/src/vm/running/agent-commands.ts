// The guest agent's commands as PVE offers them: GET or POST below /agent, and all of them through POST /agent.

export interface AgentCommand {
  readonly name: string;
  readonly method: "GET" | "POST";
  /** How long the guest may take. */
  readonly timeoutMs?: number;
  /** Answers only when it fails: the guest goes down or to sleep. */
  readonly noReply?: true;
}

const FREEZE_MS = 60 * 60_000;
const THAW_MS = 3 * 60_000;

export const agentCommands = [
  { name: "fsfreeze-freeze", method: "POST", timeoutMs: FREEZE_MS },
  { name: "fsfreeze-status", method: "POST" },
  { name: "fsfreeze-thaw", method: "POST", timeoutMs: THAW_MS },
  { name: "fstrim", method: "POST", timeoutMs: FREEZE_MS },
  { name: "get-fsinfo", method: "GET" },
  { name: "get-host-name", method: "GET" },
  { name: "get-memory-block-info", method: "GET" },
  { name: "get-memory-blocks", method: "GET" },
  { name: "get-osinfo", method: "GET" },
  { name: "get-time", method: "GET" },
  { name: "get-timezone", method: "GET" },
  { name: "get-users", method: "GET" },
  { name: "get-vcpus", method: "GET" },
  { name: "info", method: "GET" },
  { name: "network-get-interfaces", method: "GET" },
  { name: "ping", method: "POST" },
  { name: "shutdown", method: "POST", noReply: true },
  { name: "suspend-disk", method: "POST", noReply: true },
  { name: "suspend-hybrid", method: "POST", noReply: true },
  { name: "suspend-ram", method: "POST", noReply: true },
] as const satisfies readonly AgentCommand[];

/** Commands with parameters and paths of their own. */
export const agentSpecialCommands = [
  "exec",
  "exec-status",
  "file-read",
  "file-write",
  "set-user-password",
] as const;

export function agentCommand(name: string): AgentCommand | undefined {
  return agentCommands.find((command) => command.name === name);
}
