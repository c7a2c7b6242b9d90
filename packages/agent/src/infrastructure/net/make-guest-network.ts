import { messageOf } from "@gpve/contracts/errors.ts";
import type { Clock } from "@gpve/kit/clock.ts";
import type { DataDir } from "@gpve/kit/data-dir.ts";
import type { Exec } from "@gpve/kit/exec.ts";
import type { Logger } from "@gpve/kit/logger.ts";
import { guestNetwork } from "./guest-network.ts";

/** Guests without a network are better than no gpve: what fails is said, and the rest starts. */
export async function makeGuestNetwork(
  data: DataDir,
  deps: { readonly exec: Exec; readonly clock: Clock; readonly log: Logger; readonly uid?: number },
): Promise<void> {
  const { exec, clock, log } = deps;
  const uid = deps.uid ?? process.getuid?.();
  if (uid !== 0) {
    log.info({}, "guests get no network of their own: making one needs root");
    return;
  }
  try {
    const made = await guestNetwork(data, { exec, clock }).ensure();
    if (made === undefined) log.info({}, "this host has a bridge for guests (vmbr*); it is used as it is");
    else log.info({ bridge: made.bridge, subnet: made.subnet }, "the guests' network is up");
  } catch (err) {
    log.warn({ err: messageOf(err) }, "the guests' network could not be made");
  }
}
