import type { AuditLog } from "@gpve/domain/audit/audit-log.ts";
import type { Clock } from "@gpve/kit/clock.ts";
import { auditEntry } from "./audit-entry.ts";

/** What an API face tells about a call that is to be audited. */
export interface AuditedCall {
  readonly requestId: string;
  /** Who called; for a failed login who was tried. */
  readonly user: string;
  /** The HTTP method. */
  readonly verb: string;
  /** The declared path, "/access/users/{userid}". */
  readonly resource: string;
  /** The path that was called, "/access/users/joe@pve". */
  readonly name: string;
  readonly sourceIP: string;
  readonly userAgent: string;
  readonly statusCode: number;
  readonly message: string;
  /** undefined = none of them may be kept. */
  readonly params: Readonly<Record<string, unknown>> | undefined;
}

export interface RecordAuditDeps {
  readonly log: AuditLog;
  readonly clock: Clock;
  readonly groupsOf: (user: string) => readonly string[];
}

/**
 * Resolves when the entry is on disk, and rejects when it cannot be written: a face awaits it before it answers, so
 * that no change is acknowledged that the log does not know.
 */
export function recordAudit(deps: RecordAuditDeps): (call: AuditedCall | undefined) => Promise<void> {
  return async (call) => {
    if (call === undefined) return;
    await deps.log.append(
      auditEntry({
        at: deps.clock.now(),
        requestId: call.requestId,
        actor: { userid: call.user, authid: call.user },
        userGroups: deps.groupsOf(call.user),
        method: call.verb,
        path: call.resource,
        params: { ...call.params, ...pathParameters(call.resource, call.name) },
        clientAddress: call.sourceIP,
        userAgent: call.userAgent,
        status: call.statusCode,
        message: call.message,
        audit: call.params === undefined ? "secret" : "write",
      }),
    );
  };
}

/** "/access/users/{userid}" and "/access/users/joe@pve" -> userid: joe@pve. */
function pathParameters(pattern: string, path: string): Record<string, string> {
  const values = path.split("/").filter((part) => part !== "");
  const found: Record<string, string> = {};
  for (const [index, part] of pattern
    .split("/")
    .filter((each) => each !== "")
    .entries()) {
    const name = /^\{(\w+)\}$/.exec(part)?.[1];
    const value = values[index];
    if (name !== undefined && value !== undefined) found[name] = value;
  }
  return found;
}
