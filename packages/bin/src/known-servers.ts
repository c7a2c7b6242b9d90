// Where a node's agent keeps which servers there are, and its fence process reads it.
import { KnownServers } from "@gpve/agent/infrastructure/server-link/known-servers.ts";
import type { DataDir } from "@gpve/kit/data-dir.ts";
import type { Logger } from "@gpve/kit/logger.ts";

export function knownServers(data: DataDir, configured: readonly string[], log: Logger): KnownServers {
  return new KnownServers({ configured, file: data.file("agent", "servers.json"), log });
}
