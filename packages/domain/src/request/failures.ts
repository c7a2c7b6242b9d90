// Failures in PVE's words and status codes: one function for each kind, for both faces. What PVE refuses it answers with
// 500, also where something is unknown or already there.
import { AppError, type AppErrorOptions } from "@gpve/contracts/errors.ts";

type Why = Pick<AppErrorOptions, "cause" | "data">;

/** A request that cannot be followed as it is. */
export function refused(message: string, why: Why = {}): AppError {
  return new AppError("request.invalid", message, { ...why, pveStatus: 500 });
}

/** One that could be, were things in another state. */
export function conflict(message: string, why: Why = {}): AppError {
  return new AppError("object.conflict", message, { ...why, pveStatus: 500 });
}

export function missing(message: string, why: Why = {}): AppError {
  return new AppError("object.not_found", message, { ...why, pveStatus: 500 });
}

export function alreadyThere(message: string): AppError {
  return new AppError("object.exists", message, { pveStatus: 500 });
}

/** 400 with a text for each parameter. */
export function parameterError(errors: Readonly<Record<string, string>>): AppError {
  return new AppError("request.invalid", "Parameter verification failed.\n", { errors, pveStatus: 400 });
}
