import { AppError, errorKinds, isAppError } from "@gpve/contracts/errors.ts";

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
    const text = status === 500 ? err.message : `${status} ${err.message.trimEnd()}${details.join("")}`;
    throw new AppError(err.code, `${prefix}: ${text}`, { cause: err, data: err.data, pveStatus: 500 });
  }
}
