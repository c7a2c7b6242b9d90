import { given } from "@gpve/contracts/given.ts";
import { AppError, isAppError } from "@gpve/contracts/errors.ts";

/** A failure of this part of a command's work names it, instead of the whole that was begun. */
export async function whileDoing<T>(doing: string, work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (err) {
    if (!isAppError(err)) throw err;
    throw new AppError(err.code, err.message, {
      cause: err.cause,
      data: { ...err.data, doing },
      ...given({ errors: err.errors }),
    });
  }
}
