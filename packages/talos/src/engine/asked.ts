// What a machine may tell, and need not.
import { isAppError } from "@gpve/contracts/errors.ts";

/** Nothing is decided by silence: a machine that does not tell this is judged by the rest. */
export async function asked<T>(work: () => Promise<T>): Promise<T | undefined> {
  try {
    return await work();
  } catch (err) {
    if (isAppError(err)) return undefined;
    throw err;
  }
}
