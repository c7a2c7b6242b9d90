// Replication as nobody's request: work of the system itself.
import { noAccess } from "@gpve/domain/access/access-view.ts";
import { ROOT_USER } from "@gpve/domain/request/context.ts";
import type { Asking } from "../node/call-agent.ts";

export function byReplication(requestId: string, signal: AbortSignal): Asking {
  return {
    work: "replication",
    actor: { userid: ROOT_USER, authid: ROOT_USER },
    access: noAccess,
    requestId,
    clientAddress: "",
    signal,
  };
}
