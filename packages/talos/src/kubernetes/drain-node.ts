// A node is emptied: nothing new comes, what is there moves elsewhere as budgets allow.
import { AppError } from "@gpve/contracts/errors.ts";
import type { Clock } from "@gpve/kit/clock.ts";
import type { Kubernetes, Pod } from "./kubernetes.ts";

export type DrainPolicy = "strict" | "evict-then-delete" | "skip";

export interface DrainRequest {
  readonly node: string;
  readonly policy: DrainPolicy;
  readonly timeoutMs: number;
}

const PAUSE_MS = 2_000;

export async function drainNode(kubernetes: Kubernetes, clock: Clock, request: DrainRequest): Promise<void> {
  const { node, policy, timeoutMs } = request;
  await kubernetes.setCordon(node, true);
  if (policy === "skip") return;
  const until = clock.monotonic() + timeoutMs;
  for (;;) {
    const pods = await kubernetes.evictablePods(node);
    if (pods.length === 0) return;
    const kept: Pod[] = [];
    for (const pod of pods) if (!(await kubernetes.evict(pod))) kept.push(pod);
    if (clock.monotonic() >= until) {
      if (policy === "strict" || kept.length === 0)
        throw tooLong(node, timeoutMs, kept.length > 0 ? kept : pods);
      for (const pod of kept) await kubernetes.deletePod(pod);
    }
    await clock.sleep(PAUSE_MS);
    // Deleted ones get the same time once more to end.
    if (clock.monotonic() >= until + timeoutMs) throw tooLong(node, timeoutMs, pods);
  }
}

function tooLong(node: string, timeoutMs: number, pods: readonly Pod[]): AppError {
  const names = pods.slice(0, 5).map(({ namespace, name }) => `${namespace}/${name}`);
  return new AppError(
    "request.timeout",
    `${node} is not empty after ${Math.round(timeoutMs / 1000)} s: ${names.join(", ")} did not go`,
    {
      data: {
        finding: "drain-timeout",
        next: "The node stays cordoned. Look at the disruption budgets, or set the pool's upgrade.drain.policy.",
      },
    },
  );
}
