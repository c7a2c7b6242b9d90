import { AppError, isAppError, messageOf } from "@gpve/contracts/errors.ts";

/** Runs a part of a task; what goes wrong in it begins with what it was, as clients expect. */
export async function withPrefix<T>(prefix: string, work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (cause) {
    if (isAppError(cause, "operation.cancelled")) throw cause;
    const { code, data } = isAppError(cause) ? cause : { code: "operation.failed" as const, data: {} };
    throw new AppError(code, `${prefix}${messageOf(cause)}`, { cause, data, pveStatus: 500 });
  }
}
