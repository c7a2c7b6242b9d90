import { ignore } from "@gpve/kit/background.ts";
import type { Clock } from "@gpve/kit/clock.ts";
import type { Logger } from "@gpve/kit/logger.ts";
import { keepGuestNetwork } from "../nat/make-guest-network.ts";
import type { LinePins } from "../line/line-pins.ts";
import type { VmBridges } from "../vm-bridges.ts";

/** Filter and wall are made again where somebody took a part of them away. */
export async function keepFilters(
  { macFilter, hostWall }: VmBridges,
  deps: { readonly clock: Clock; readonly log: Logger },
  signal: AbortSignal,
): Promise<void> {
  const kept = hostWall === undefined ? [macFilter] : [macFilter, hostWall];
  await Promise.all(kept.map((each) => keepGuestNetwork(each, deps, signal)));
}

/** What keeps lines to their guests; begins with none. */
export async function keepPins(
  pins: LinePins,
  deps: { readonly clock: Clock; readonly log: Logger },
  signal: AbortSignal,
): Promise<void> {
  await pins.sweep().catch((err: unknown) => ignore(err, "who cannot ask nft has made no rules with it"));
  await keepGuestNetwork(pins, deps, signal);
}
