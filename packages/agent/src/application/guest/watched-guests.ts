// The guests of a node as its looks at them show them: who runs, what the last look saw, and what is kept of it.
import { guestCollection, type GuestRecord } from "@gpve/domain/guest/guest-record.ts";
import type { GuestRuntime } from "@gpve/domain/node/runtime.ts";
import { valuesOf } from "@gpve/domain/record/collection.ts";
import type { Records } from "@gpve/store/records/port.ts";
import { joinSamplers, watchGuests, type GuestSampler, type GuestWatch } from "./watch-guests.ts";

export interface WatchedGuestsDeps extends Pick<GuestWatch, "observe" | "clock" | "log" | "everyMs"> {
  readonly node: string;
  /** One for each kind. */
  readonly samplers: readonly GuestSampler[];
  readonly records: () => Records;
  readonly statistics: {
    sample(nowMs: number, running: readonly GuestRuntime[], guests: readonly GuestRecord[]): void;
    /** Of guests that are no more. */
    prune(exists: (vmid: number) => boolean): void;
  };
}

export class WatchedGuests {
  readonly #deps: WatchedGuestsDeps;
  readonly #sampler: Required<GuestSampler>;
  #last: readonly GuestRuntime[] = [];

  constructor(deps: WatchedGuestsDeps) {
    this.#deps = deps;
    this.#sampler = joinSamplers(deps.samplers);
  }

  /** Who runs now, with figures that are a few seconds old at most. */
  rows(): readonly GuestRuntime[] {
    return (this.#last = this.#sampler.rows());
  }

  /** Which guests run, as a text that changes with them. */
  running(): string {
    return this.#sampler.running();
  }

  /** Of the last look. */
  sampled(vmid: number): GuestRuntime | undefined {
    return this.#last.find((row) => row.vmid === vmid);
  }

  /** Until the signal fires. */
  async run(signal: AbortSignal): Promise<void> {
    const { node, records, statistics, clock } = this.#deps;
    await watchGuests(
      {
        ...this.#deps,
        sampler: { ...this.#sampler, sample: () => (this.#last = this.#sampler.sample()) },
        guests: () => valuesOf(records(), guestCollection).filter((guest) => guest.node === node),
        keep: (rows, guests) => {
          statistics.sample(clock.now(), rows, guests);
          statistics.prune((vmid) => records().collection(guestCollection).get(String(vmid)) !== undefined);
        },
      },
      signal,
    );
  }
}
