// The look at all guests of a node, every few seconds: figures for graphs, and memory for who needs it.
import { messageOf } from "@gpve/contracts/errors.ts";
import type { GuestRecord } from "@gpve/domain/guest/guest-record.ts";
import type { GuestRuntime } from "@gpve/domain/node/runtime.ts";
import type { Clock } from "@gpve/kit/clock.ts";
import type { Logger } from "@gpve/kit/logger.ts";
import { every } from "@gpve/kit/every.ts";

/** What a kind of guest tells of those that run. */
export interface GuestSampler {
  /** Asks each for figures that only it knows; one that does not answer keeps its last ones. */
  askGuests(): Promise<void>;
  /** Each that runs, measured now. */
  sample(): readonly GuestRuntime[];
  /** Each that runs now, with figures that are a few seconds old at most. */
  rows(): readonly GuestRuntime[];
  /** Which of them run, as a text that changes with them. */
  running(): string;
  /** What they have is shared out anew, after each look. */
  balance?(guests: readonly GuestRecord[]): Promise<void>;
}

/** All kinds as one. */
export function joinSamplers(samplers: readonly GuestSampler[]): Required<GuestSampler> {
  return {
    askGuests: async () => {
      await Promise.all(samplers.map((each) => each.askGuests()));
    },
    sample: () => samplers.flatMap((each) => each.sample()),
    rows: () => samplers.flatMap((each) => each.rows()),
    running: () => samplers.map((each) => each.running()).join(";"),
    balance: async (guests) => {
      for (const each of samplers) await each.balance?.(guests);
    },
  };
}

export interface GuestWatch {
  readonly sampler: Pick<Required<GuestSampler>, "askGuests" | "sample" | "balance">;
  /** Guests of this node, running or not. */
  readonly guests: () => readonly GuestRecord[];
  readonly keep: (rows: readonly GuestRuntime[], guests: readonly GuestRecord[]) => void;
  /** Told how long each look at all running guests took. */
  readonly observe: (seconds: number) => void;
  readonly clock: Clock;
  readonly log: Logger;
  readonly everyMs: number;
}

/** Until the signal fires. */
export async function watchGuests(watch: GuestWatch, signal: AbortSignal): Promise<void> {
  const { clock, log } = watch;
  await every(watch.everyMs, { clock, signal }, async () => {
    try {
      const begun = clock.monotonic();
      await watch.sampler.askGuests();
      const rows = watch.sampler.sample();
      watch.observe((clock.monotonic() - begun) / 1000);
      const guests = watch.guests();
      watch.keep(rows, guests);
      await watch.sampler.balance(guests);
    } catch (err) {
      log.error({ err: messageOf(err) }, "statistics of guests failed");
    }
  });
}
