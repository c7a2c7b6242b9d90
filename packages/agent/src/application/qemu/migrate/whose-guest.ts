// Asking servers whose a guest is, until one has said so: nothing may be done with it before.
import { isAppError } from "@gpve/contracts/errors.ts";
import type { Clock } from "@gpve/kit/clock.ts";

const RETRY_MS = 500;

export async function untilAnswered(question: {
  readonly ask: () => Promise<string>;
  /** After an answer that did not come: it may have been done without our hearing of it. */
  readonly askAgain?: () => Promise<string>;
  readonly clock: Pick<Clock, "sleep">;
  readonly log: (line: string) => void;
}): Promise<string> {
  const { ask, askAgain = ask, clock, log } = question;
  for (let next = ask; ; next = askAgain) {
    try {
      return await next();
    } catch (err) {
      if (!isAppError(err, "store.unavailable")) throw err;
      log(`${err.message}; trying again`);
      await clock.sleep(RETRY_MS);
    }
  }
}
