// Puts together what this node tells the servers, a few times a minute.
import type {
  GuestRuntime,
  NodeFacts,
  NodeReport,
  NodeUsage,
  StorageRuntime,
} from "@gpve/domain/node/runtime.ts";
import type { Clock } from "@gpve/kit/clock.ts";

export interface ReporterDeps {
  readonly node: string;
  readonly agentVersion: string;
  readonly clock: Clock;
  readonly usage: () => Promise<NodeUsage>;
  /** Facts known so far, and a number that grows when they change. */
  readonly facts: () => { readonly facts: NodeFacts; readonly generation: number };
  readonly guests?: () => readonly GuestRuntime[];
  readonly storages?: () => readonly StorageRuntime[];
}

export interface Reporter {
  /** With facts when they changed since `sentGeneration`. */
  report(sentGeneration: number): Promise<{ report: NodeReport; generation: number }>;
  /** Something happened that lists should show now: whoever waits for the next report waits no longer. */
  hurry(): void;
  /** Until the next report is due. */
  untilDue(intervalMs: number, signal: AbortSignal): Promise<void>;
}

/** What happens at once is told at once. */
const TOGETHER_MS = 30;

export function createReporter(deps: ReporterDeps): Reporter {
  const waiting = new Set<() => void>();
  return {
    hurry() {
      for (const wake of waiting) wake();
    },
    async untilDue(intervalMs, signal) {
      const { promise: woken, resolve } = Promise.withResolvers<"woken">();
      const wake = (): void => resolve("woken");
      const over = new AbortController();
      waiting.add(wake);
      try {
        const slept = deps.clock.sleep(intervalMs, AbortSignal.any([signal, over.signal]));
        if ((await Promise.race([slept, woken])) === "woken") await deps.clock.sleep(TOGETHER_MS, signal);
      } finally {
        waiting.delete(wake);
        over.abort();
      }
    },
    async report(sentGeneration) {
      const usage = await deps.usage();
      const { facts, generation } = deps.facts();
      const report: NodeReport = {
        node: deps.node,
        at: deps.clock.now(),
        agentVersion: deps.agentVersion,
        ...(generation === sentGeneration ? {} : { facts }),
        usage,
        guests: deps.guests?.() ?? [],
        storages: deps.storages?.() ?? [],
      };
      return { report, generation };
    },
  };
}

/** Reports straight into a board of the same process until the signal fires. */
export async function reportLocally(
  reporter: Reporter,
  accept: (report: NodeReport) => void,
  options: { signal: AbortSignal; intervalMs?: number; onError?: (err: unknown) => void },
): Promise<void> {
  let sent = -1;
  while (!options.signal.aborted) {
    try {
      const next = await reporter.report(sent);
      accept(next.report);
      sent = next.generation;
    } catch (err) {
      options.onError?.(err);
    }
    await reporter.untilDue(options.intervalMs ?? 2_500, options.signal).catch(() => undefined);
  }
}
