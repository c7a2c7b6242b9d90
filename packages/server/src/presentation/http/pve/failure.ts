import { AppError, messageOf } from "@gpve/contracts/errors.ts";
import { AgentUnreachable } from "@gpve/domain/node/agent-port.ts";
import type { PveFailure } from "./formats.ts";

/** PVE's status for each kind of ours. Missing objects are 500 there, unknown paths 501. */
export function toFailure(err: unknown): PveFailure {
  if (err instanceof AgentUnreachable) return { ok: false, status: err.status, message: err.message };
  if (!(err instanceof AppError)) return { ok: false, status: 500, message: messageOf(err) };
  if (err.errors !== undefined && Object.keys(err.errors).length > 0) {
    const message = err.message === "" ? "Parameter verification failed." : err.message;
    return { ok: false, status: err.pveStatus ?? 400, message, errors: err.errors };
  }
  return { ok: false, status: err.pveStatus ?? statusOf(err), message: err.message };
}

function statusOf(err: AppError): number {
  switch (err.kind) {
    case "invalid":
      return 400;
    case "unauthenticated":
      return 401;
    case "forbidden":
      return 403;
    case "unsupported":
      return 501;
    case "unavailable":
      return 503;
    case "notFound":
    case "exists":
    case "conflict":
    case "busy":
    case "noCapacity":
    case "timeout":
    case "internal":
      return 500;
  }
}
