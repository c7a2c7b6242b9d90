// A machine that comes back is told to shut down by itself, so that etcd hands over what it leads and disks are left whole.
// The plug is pulled only when it does not listen, or does not come to its end.
import { isAppError } from "@gpve/contracts/errors.ts";
import type { Clock } from "@gpve/kit/clock.ts";
import type { Driver, GuestPlace } from "../driver/driver.ts";

export interface ShutDownDeps {
  readonly driver: Driver;
  readonly clock: Pick<Clock, "monotonic" | "sleep">;
  /** Throws with a finding where it must not be stopped at all. */
  readonly ask: () => Promise<void>;
}

const PAUSE_MS = 2_000;
/** Its last pods have half a minute, and its services as much. */
const PATIENCE_MS = 180_000;

export async function shutDown({ driver, clock, ask }: ShutDownDeps, place: GuestPlace): Promise<void> {
  try {
    await ask();
  } catch (err) {
    if (!isAppError(err) || err.data["finding"] !== undefined) throw err;
    return driver.stop(place);
  }
  const until = clock.monotonic() + PATIENCE_MS;
  while (clock.monotonic() < until) {
    await clock.sleep(PAUSE_MS);
    if (!(await mayRun(driver, place))) return;
  }
  return driver.stop(place);
}

/** A platform that does not answer for a moment says nothing about it; what stands against it, whoever stops it hears. */
async function mayRun(driver: Driver, { vmid }: GuestPlace): Promise<boolean> {
  try {
    const { guests } = await driver.observe([]);
    return guests.some((guest) => guest.vmid === vmid && guest.isRunning);
  } catch (err) {
    if (isAppError(err)) return true;
    throw err;
  }
}
