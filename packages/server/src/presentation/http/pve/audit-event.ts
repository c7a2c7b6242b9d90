import type { IncomingMessage } from "node:http";
import { declaredRoute } from "@gpve/contracts/pve/routes.ts";
import { methodKey } from "@gpve/domain/schema/method-table.ts";
import type { PveMethod } from "@gpve/contracts/pve/schema.ts";
import type { PveResult } from "./formats.ts";
import type { ApiPath } from "./path.ts";
import type { Authenticated } from "../../../application/access/authenticator.ts";
import type { AuditedCall } from "../../../application/audit/record-audit.ts";

export interface AuditInput {
  readonly req: IncomingMessage;
  readonly method: string;
  readonly path: ApiPath;
  readonly resolved:
    | { readonly method: PveMethod; readonly params: Readonly<Record<string, unknown>> }
    | undefined;
  readonly outcome: PveResult;
  readonly auth: Authenticated;
  readonly requestId: string;
  readonly clientAddress: string;
}

/** undefined = not audited: reads that were not denied, and what is no route at all. */
export function auditOf(input: AuditInput): AuditedCall | undefined {
  const { resolved, outcome } = input;
  if (resolved === undefined) return undefined;
  const rule = declaredRoute(methodKey(resolved.method))?.audit ?? "none";
  if (rule === "none" && (outcome.ok || outcome.status !== 403)) return undefined;
  const claimed = resolved.params["username"];
  return {
    requestId: input.requestId,
    user: input.auth.actor?.authid ?? (typeof claimed === "string" ? claimed : ""),
    verb: resolved.method.method,
    resource: resolved.method.path,
    name: input.path.relative,
    sourceIP: input.clientAddress,
    userAgent: input.req.headers["user-agent"] ?? "",
    statusCode: outcome.ok ? 200 : outcome.status,
    message: outcome.ok ? "" : outcome.message,
    params: rule === "write" ? resolved.params : undefined,
  };
}
