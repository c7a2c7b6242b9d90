// Wires the look at the guests of a node: what they use, and what is kept of it.
import { guestCollection, type GuestRecord } from "@gpve/domain/guest/guest-record.ts";
import type { Clock } from "@gpve/kit/clock.ts";
import type { GuestRuntime } from "@gpve/domain/node/runtime.ts";
import type { Logger } from "@gpve/kit/logger.ts";
import type { Records } from "@gpve/store/records/port.ts";
import { joinSamplers, watchGuests, type GuestSampler } from "./application/guest/watch-guests.ts";
import { GuestStatisticsFiles } from "./infrastructure/rrd/guest-statistics.ts";
import { SAMPLE_EVERY_MS } from "./infrastructure/rrd/node-statistics.ts";
import type { RrdConsolidation, RrdRow, RrdTimeframe } from "./infrastructure/rrd/rrd-file.ts";

export interface GuestWatchParts {
  readonly node: string;
  readonly samplers: readonly GuestSampler[];
  readonly clock: Clock;
  readonly records: () => Records;
  /** Of the archives. */
  readonly folder: string;
  readonly log: Logger;
  readonly observe: (seconds: number) => void;
}

export interface ComposedGuestWatch {
  /** Who runs now, with figures that are a few seconds old at most. */
  rows(): readonly GuestRuntime[];
  /** Which guests run, as a text that changes with them. */
  running(): string;
  /** Of the last sample. */
  sampled(vmid: number): GuestRuntime | undefined;
  history(vmid: number, timeframe: RrdTimeframe, consolidation: RrdConsolidation): RrdRow[];
  run(signal: AbortSignal): Promise<void>;
  close(): void;
}

export function composeGuestWatch(parts: GuestWatchParts): ComposedGuestWatch {
  const { node, records, clock } = parts;
  const sampler = joinSamplers(parts.samplers);
  const statistics = new GuestStatisticsFiles(parts.folder);
  let sampled: readonly GuestRuntime[] = [];
  const kept = (rows: readonly GuestRuntime[]): readonly GuestRuntime[] => (sampled = rows);
  const guests = (): readonly GuestRecord[] =>
    records()
      .collection(guestCollection)
      .list()
      .flatMap(({ value }) => (value.node === node ? [value] : []));
  return {
    rows: () => kept(sampler.rows()),
    running: () => sampler.running(),
    sampled: (vmid) => sampled.find((row) => row.vmid === vmid),
    history: (vmid, timeframe, consolidation) => statistics.rows(vmid, timeframe, consolidation, clock.now()),
    run: (signal) =>
      watchGuests(
        {
          sampler: { ...sampler, sample: () => kept(sampler.sample()) },
          guests,
          keep: (rows, known) => {
            statistics.sample(clock.now(), rows, known);
            statistics.prune((vmid) => records().collection(guestCollection).get(String(vmid)) !== undefined);
          },
          observe: parts.observe,
          clock,
          log: parts.log,
          everyMs: SAMPLE_EVERY_MS,
        },
        signal,
      ),
    close: () => statistics.close(),
  };
}
