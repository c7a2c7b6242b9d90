// Looks at this host again and again while the agent runs.
import { background } from "@gpve/kit/background.ts";
import type { Clock } from "@gpve/kit/clock.ts";
import { every } from "@gpve/kit/every.ts";
import type { Logger } from "@gpve/kit/logger.ts";
import type { FactsKeeper } from "./facts-keeper.ts";

const BRIDGES_EVERY_MS = 60_000;
/** Trying everything starts some twenty processes: often enough to see new packages, seldom enough to stay idle. */
const ROUNDS_TO_ALL = 15;

export async function keepFacts(
  deps: {
    readonly facts: Pick<FactsKeeper, "refresh" | "refreshBridges">;
    readonly clock: Clock;
    readonly log: Pick<Logger, "error">;
  },
  signal: AbortSignal,
): Promise<void> {
  const { facts, clock, log } = deps;
  let round = 0;
  await every(BRIDGES_EVERY_MS, { clock, signal }, () => {
    const look = round++ % ROUNDS_TO_ALL === 0 ? facts.refresh(signal) : facts.refreshBridges();
    background(log, "looking at this host", look);
  });
}
