// Wires the look at the guests of a node: what they use, what is kept of it, and who gives memory back.
import { guestCollection, type GuestRecord } from "@gpve/domain/guest/guest-record.ts";
import type { QemuProcesses } from "@gpve/domain/vm/qemu-processes.ts";
import type { VmNetwork } from "@gpve/domain/vm/config/vm-network.ts";
import type { Clock } from "@gpve/kit/clock.ts";
import type { GuestRuntime } from "@gpve/domain/node/runtime.ts";
import type { Logger } from "@gpve/kit/logger.ts";
import type { Records } from "@gpve/store/records/port.ts";
import { balanceMemory } from "./application/qemu/figures/balance-memory.ts";
import { runningVm } from "./application/qemu/running-vm.ts";
import type { VmConfigs } from "./application/qemu/config/vm-configs.ts";
import { VmSampler } from "./application/qemu/figures/vm-sampler.ts";
import { watchGuests } from "./application/guest/watch-guests.ts";
import { GuestStatisticsFiles } from "./infrastructure/rrd/guest-statistics.ts";
import { SAMPLE_EVERY_MS } from "./infrastructure/rrd/node-statistics.ts";
import type { RrdConsolidation, RrdRow, RrdTimeframe } from "./infrastructure/rrd/rrd-file.ts";
import { tapTraffic } from "./infrastructure/vm/tap-traffic.ts";

export interface GuestWatchParts {
  readonly configs: VmConfigs;
  readonly processes: QemuProcesses;
  readonly network: VmNetwork;
  readonly clock: Clock;
  readonly records: () => Records;
  /** Of the archives. */
  readonly folder: string;
  readonly log: Logger;
  readonly memoryUse: () => Promise<{ readonly total: number; readonly used: number }>;
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
  const { records, clock, configs, processes } = parts;
  const sampler = new VmSampler({
    processes,
    configs,
    clock,
    traffic: (vmid, key) => tapTraffic(parts.network.tapOf(vmid, key)),
  });
  const statistics = new GuestStatisticsFiles(parts.folder);
  let sampled: readonly GuestRuntime[] = [];
  const kept = (rows: readonly GuestRuntime[]): readonly GuestRuntime[] => (sampled = rows);
  const guests = (): readonly GuestRecord[] =>
    records()
      .collection(guestCollection)
      .list()
      .flatMap(({ value }) => (value.node === configs.node ? [value] : []));
  const balance = {
    process: (vmid: number) => runningVm(parts, vmid),
    freeMemory: (vmid: number) => sampler.freeMemory(vmid),
    hostMemory: parts.memoryUse,
  };
  return {
    rows: () => kept(sampler.rows()),
    running: () => sampler.running(),
    sampled: (vmid) => sampled.find((row) => row.vmid === vmid),
    history: (vmid, timeframe, consolidation) => statistics.rows(vmid, timeframe, consolidation, clock.now()),
    run: (signal) =>
      watchGuests(
        {
          sampler: { askGuests: () => sampler.askGuests(), sample: () => kept(sampler.sample()) },
          guests,
          keep: (rows, known) => {
            statistics.sample(clock.now(), rows, known);
            statistics.prune((vmid) => records().collection(guestCollection).get(String(vmid)) !== undefined);
          },
          balance: (known) => balanceMemory(balance, known),
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
