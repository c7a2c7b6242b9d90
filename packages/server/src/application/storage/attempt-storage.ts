// A new storage is tried on the node of the server that was asked, so that trouble shows at once.
import { refused } from "@gpve/domain/request/failures.ts";
import type { AskedOf } from "@gpve/contracts/agent/agent-routes.ts";
import { isAppError } from "@gpve/contracts/errors.ts";
import { AgentUnreachable } from "@gpve/domain/node/agent-port.ts";
import type { RequestContext } from "@gpve/domain/request/context.ts";
import { servesNode, type StorageDefinition } from "@gpve/domain/storage/definition.ts";
import { ignore } from "@gpve/kit/background.ts";
import type { NodeCalls } from "../node/call-agent.ts";
import type { StorageSecretValues } from "./storage-secrets.ts";

type Calls = Pick<NodeCalls, "call" | "knows">;

/** Throws what the node says. A node that is away, or too old to be asked, is no reason to refuse. */
export function attemptStorage(
  deps: { readonly calls: Calls; readonly node: string },
  definition: StorageDefinition,
  ctx: RequestContext,
  secrets: StorageSecretValues = {},
): Promise<void> {
  const told = Object.keys(secrets).length === 0 ? {} : { secrets };
  return ask(deps.calls, deps.node, { definition, ...told }, ctx);
}

/** A node that is away is asked when it is used; nobody waits for it now. */
const PATIENCE_MS = 3_000;

/** Throws when the directories of a storage cannot be a storage's on one of the nodes that would have it. */
export async function checkStoragePlace(
  deps: { readonly calls: Calls; readonly nodes: () => readonly string[] },
  definition: StorageDefinition,
  ctx: RequestContext,
): Promise<void> {
  const tooLate = AbortSignal.timeout(PATIENCE_MS);
  const nodes = deps.nodes().filter((node) => servesNode(definition, node));
  await Promise.all(
    nodes.map((node) =>
      ask(
        deps.calls,
        node,
        { definition, onlyPlace: true },
        { ...ctx, signal: AbortSignal.any([ctx.signal, tooLate]) },
      ).catch((err: unknown) => {
        if (!tooLate.aborted) throw err;
        ignore(err, "it is refused at its first use there");
      }),
    ),
  );
}

async function ask(
  calls: Calls,
  node: string,
  params: AskedOf<"POST /gpve/nodes/{node}/storage-checks">,
  ctx: RequestContext,
): Promise<void> {
  if (!calls.knows(node)) return;
  try {
    await calls.call(node, "POST /gpve/nodes/{node}/storage-checks", params, ctx);
  } catch (err) {
    // It is the storage that cannot be used, not this service.
    if (isAppError(err, "node.unavailable")) throw refused(err.message);
    if (!(err instanceof AgentUnreachable) && !isAppError(err, "feature.unsupported")) throw err;
    ignore(err, "it shows as inactive when the node is there again");
  }
}
