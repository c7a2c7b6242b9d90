// What came of a call to a node that failed.
import { isAppError } from "@gpve/contracts/errors.ts";
import { AgentUnreachable } from "@gpve/domain/node/agent-port.ts";

/** The node has answered, or was never reached. Whoever hung up, or was not answered, does not know what the node has begun. */
export function isRefusal(err: unknown): boolean {
  if (err instanceof AgentUnreachable) return err.status === 595;
  return isAppError(err) && err.code !== "operation.cancelled" && err.code !== "request.timeout";
}
