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
}

export function createReporter(deps: ReporterDeps): Reporter {
  return {
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
  options: { clock: Clock; signal: AbortSignal; intervalMs?: number; onError?: (err: unknown) => void },
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
    await options.clock.sleep(options.intervalMs ?? 2_500, options.signal).catch(() => undefined);
  }
}
