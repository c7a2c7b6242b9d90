import { setTimeout as sleep } from "node:timers/promises";

const MINUTE_MS = 60_000;

/** Until it is so: everything is slow on a busy machine. */
export async function until(what: string, done: () => Promise<boolean>, minutes = 3): Promise<void> {
  const end = performance.now() + minutes * MINUTE_MS;
  while (!(await done())) {
    if (performance.now() > end) throw new Error(`not within ${minutes} minutes: ${what}`);
    await sleep(300);
  }
}
