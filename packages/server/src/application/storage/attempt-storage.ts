// A new storage is tried on the node of the server that was asked, so that trouble shows at once.
import { isAppError } from "@gpve/contracts/errors.ts";
import { AgentUnreachable, type AgentDirectory } from "@gpve/domain/node/agent-port.ts";
import type { RequestContext } from "@gpve/domain/request/context.ts";
import type { StorageDefinition } from "@gpve/domain/storage/definition.ts";
import { STORAGE_CHECK_ROUTE } from "@gpve/domain/storage/storage-check.ts";
import { ignore } from "@gpve/kit/background.ts";
import { refused } from "../access/failures.ts";
import { agentCall } from "../node/call-agent.ts";

/** Throws what the node says. A node that is away, or too old to be asked, is no reason to refuse. */
export async function attemptStorage(
  deps: { readonly agents: AgentDirectory; readonly node: string },
  definition: StorageDefinition,
  ctx: RequestContext,
): Promise<void> {
  const connection = deps.agents.connection(deps.node);
  if (connection === undefined) return;
  try {
    await connection.call(agentCall(STORAGE_CHECK_ROUTE, { node: deps.node, definition }, ctx), ctx.signal);
  } catch (err) {
    // It is the storage that cannot be used, not this service.
    if (isAppError(err, "node.unavailable")) throw refused(err.message);
    if (!(err instanceof AgentUnreachable) && !isAppError(err, "feature.unsupported")) throw err;
    ignore(err, "it shows as inactive when the node is there again");
  }
}
