// What is counted of the scheduler, in text form for whoever scrapes.
import { metricText, type Sample } from "@gpve/kit/telemetry/exposition.ts";

export type AttemptResult = "scheduled" | "unschedulable" | "conflict" | "error";

const RESULTS: readonly AttemptResult[] = ["scheduled", "unschedulable", "conflict", "error"];

export class SchedulerFigures {
  readonly #attempts = new Map<AttemptResult, number>();
  #seconds = 0;
  #decisions = 0;
  queueDepth: () => number = () => 0;
  /** Rules that do not hold for guests that are there, and how unevenly nodes are filled; from the last look. */
  violations = 0;
  imbalance = 0;

  count(result: AttemptResult, seconds: number): void {
    this.#attempts.set(result, (this.#attempts.get(result) ?? 0) + 1);
    if (result === "conflict") return;
    this.#decisions++;
    this.#seconds += seconds;
  }

  text(): string {
    return [
      metricText(
        "gpve_scheduler_attempts_total",
        "counter",
        "Attempts to place something, by result.",
        RESULTS.map((result): Sample => [{ result }, this.#attempts.get(result) ?? 0]),
      ),
      metricText(
        "gpve_scheduler_decision_seconds_total",
        "counter",
        "Time that placements took, all together.",
        [[{}, this.#seconds]],
      ),
      metricText("gpve_scheduler_decisions_total", "counter", "Placements that were decided, either way.", [
        [{}, this.#decisions],
      ]),
      metricText("gpve_scheduler_queue_depth", "gauge", "Placements that wait for room.", [
        [{}, this.queueDepth()],
      ]),
      metricText(
        "gpve_scheduler_violations",
        "gauge",
        "Rules that do not hold for running guests, at the last look.",
        [[{}, this.violations]],
      ),
      metricText(
        "gpve_scheduler_imbalance_ratio",
        "gauge",
        "Between the fullest node and the emptiest, at the last look.",
        [[{}, this.imbalance / 100]],
      ),
    ].join("");
  }
}
