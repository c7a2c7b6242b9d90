// Work on one virtual cluster that a server leads over its nodes: how it begins, and what refuses it.
import { AppError } from "@gpve/contracts/errors.ts";
import { given } from "@gpve/contracts/given.ts";
import type { NodeBoard } from "@gpve/domain/node/runtime.ts";
import { ROOT_USER } from "@gpve/domain/request/context.ts";
import { keyOf, nodesOf, type VirtualClusterRecord } from "@gpve/domain/vcluster/vcluster-record.ts";
import type { OperationEngine } from "@gpve/kit/operation/engine.ts";
import type { Asking } from "../node/call-agent.ts";
import { objectLock } from "../v1/object-lock.ts";

/** Answers with the UPID. */
export async function beginClusterWork(
  engine: Pick<OperationEngine, "submit">,
  record: VirtualClusterRecord,
  work: { readonly type: string; readonly args: object; readonly requestId: string },
  ctx: Pick<Asking, "actor" | "traceparent">,
): Promise<string> {
  const { name, tenant } = record;
  const { upid } = await engine.submit({
    ...work,
    // As apply has it: what changes one object takes turns.
    resources: [objectLock({ kind: "VirtualCluster", name, namespace: tenant })],
    subject: keyOf(record),
    actor: ctx.actor?.authid ?? ROOT_USER,
    ...given({ traceparent: ctx.traceparent }),
  });
  return upid;
}

/** A node that nobody knows is a mistake of who asks; one that is away is not. */
export function requireTarget(board: Pick<NodeBoard, "get">, target: string): void {
  if (board.get(target) !== undefined) return;
  throw new AppError(
    "request.invalid",
    `there is no node '${target}' (gpvectl get nodes shows those that there are)`,
    {
      errors: { target: "is no node" },
    },
  );
}

/** `what`: that is not done while somebody would be left behind. */
export function requireAllThere(
  board: Pick<NodeBoard, "get">,
  record: VirtualClusterRecord,
  what: string,
): void {
  const away = nodesOf(record).filter((each) => board.get(each)?.health !== "online");
  if (away.length === 0) return;
  throw new AppError(
    "node.unavailable",
    `virtual cluster '${record.name}' ${what} while nodes that have a part of it are away: ${away.join(", ")}`,
  );
}
