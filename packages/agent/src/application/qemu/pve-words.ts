import { AppError, isAppError, messageOf } from "@gpve/contracts/errors.ts";

/** Runs a part of a task; what goes wrong in it begins with what it was, as clients expect. `instead` of other words. */
export async function withPrefix<T>(prefix: string, work: () => Promise<T>, instead = ""): Promise<T> {
  try {
    return await work();
  } catch (cause) {
    if (isAppError(cause, "operation.cancelled")) throw cause;
    const { code, data } = isAppError(cause) ? cause : { code: "operation.failed" as const, data: {} };
    const message = messageOf(cause);
    const why = message.startsWith(instead) ? message.slice(instead.length) : message;
    throw new AppError(code, `${prefix}${why}`, { cause, data, pveStatus: 500 });
  }
}
