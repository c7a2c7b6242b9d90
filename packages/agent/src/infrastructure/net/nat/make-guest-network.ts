// Guests without a network are better than no gpve: what fails is said, and the rest goes on.
import { messageOf } from "@gpve/contracts/errors.ts";
import type { Clock } from "@gpve/kit/clock.ts";
import type { DataDir } from "@gpve/kit/data-dir.ts";
import type { Exec } from "@gpve/kit/exec.ts";
import type { Logger } from "@gpve/kit/logger.ts";
import { guestNetwork } from "./guest-network.ts";
import type { NatBridge } from "./nat-bridge.ts";

const LOOK_EVERY_MS = 20_000;

/** The network that was made, or is to be; none where the host has one of its own, or where it cannot be. */
export async function makeGuestNetwork(
  data: DataDir,
  deps: { readonly exec: Exec; readonly clock: Clock; readonly log: Logger; readonly uid?: number },
): Promise<NatBridge | undefined> {
  const { exec, clock, log } = deps;
  const uid = deps.uid ?? process.getuid?.();
  if (uid !== 0) {
    log.info({}, "guests get user-mode networks: a bridge and taps need root");
    return undefined;
  }
  const network = guestNetwork(data, { exec, clock });
  try {
    const made = await network.ensure();
    if (made === undefined) {
      log.info({}, "this host has a bridge for guests (vmbr*); it is used as it is");
      return undefined;
    }
    log.info({ bridge: made.bridge, subnet: made.subnet }, "the guests' network is up");
    return network;
  } catch (err) {
    // What is in the way may go away: whoever keeps it tries again.
    log.warn({ err: messageOf(err) }, "the guests' network could not be made");
    return network;
  }
}

/** Makes it again where somebody took away a part: dnsmasq was killed, the host's firewall was loaded anew. */
export async function keepGuestNetwork(
  network: { ensure(): Promise<unknown>; isWhole(): Promise<boolean> },
  deps: { readonly clock: Pick<Clock, "sleep">; readonly log: Logger },
  signal: AbortSignal,
): Promise<void> {
  const { clock, log } = deps;
  let told = "";
  for (;;) {
    await clock.sleep(LOOK_EVERY_MS, signal).catch(() => undefined);
    if (signal.aborted) return;
    try {
      if (await network.isWhole()) continue;
      await network.ensure();
      log.warn({}, "a part of the guests' network was gone; it is there again");
    } catch (err) {
      const why = messageOf(err);
      // Once: it is tried again and again.
      if (why !== told) log.warn({ err: why }, "the guests' network could not be repaired");
      told = why;
    }
  }
}
