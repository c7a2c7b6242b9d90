// Replication as nobody's request: work of the system itself.
import { asSystem } from "../node/as-system.ts";
import type { Asking } from "../node/call-agent.ts";

export function byReplication(requestId: string, signal: AbortSignal): Asking {
  return asSystem({ work: "replication", requestId, signal });
}
