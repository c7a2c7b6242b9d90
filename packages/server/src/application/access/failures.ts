// Failures in PVE's words and status codes. Unknown objects are 500 there, not 404.
import { AppError, errorKinds, isAppError } from "@gpve/contracts/errors.ts";

export function missing(message: string): AppError {
  return new AppError("object.not_found", message, { pveStatus: 500 });
}

export function alreadyThere(message: string): AppError {
  return new AppError("object.exists", message, { pveStatus: 500 });
}

export function refused(message: string): AppError {
  return new AppError("request.invalid", message, { pveStatus: 500 });
}

export function conflict(message: string): AppError {
  return new AppError("object.conflict", message, { pveStatus: 500 });
}

/** 400 with the `errors` map. */
export function badParameters(errors: Readonly<Record<string, string>>): AppError {
  return new AppError("request.invalid", "Parameter verification failed.", { errors });
}

/** Trouble with the store or this process is not the caller's failed change: it keeps its own words. */
const ownWords = new Set(["unavailable", "timeout", "internal", "noCapacity", "unsupported"]);

/**
 * Runs a change whose failures PVE prefixes ("create user failed: …"). PVE puts the code of a nested refusal into
 * the text and answers 500, also for 400 and 403.
 */
export async function prefixed<T>(prefix: string, work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (err) {
    if (!isAppError(err) || ownWords.has(err.kind)) throw err;
    const { errors } = err;
    const details = Object.entries(errors ?? {}).map(([name, text]) => `\n${name}: ${text}`);
    const status = err.pveStatus ?? errorKinds[err.kind].http;
    const text = status === 500 ? err.message : `${status} ${err.message}${details.join("")}`;
    throw new AppError(err.code, `${prefix}: ${text}`, { cause: err, data: err.data, pveStatus: 500 });
  }
}
