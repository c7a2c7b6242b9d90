// The phase that each VM is shown in. What is observed may skip phases that were passed (short work, a guest that
// switched itself off between two reports): they are shown one after the other, as the table has them.
import type { VmPhase } from "@gpve/contracts/v1/vm-phase.ts";
import { wayTo } from "@gpve/domain/phase/state-machine.ts";
import { END_GRAIN_MS, lifeWork, vmPhaseOf } from "@gpve/domain/phase/vm-phase-of.ts";
import { vmPhases } from "@gpve/domain/phase/vm-phases.ts";
import type { GuestRecord } from "@gpve/domain/guest/guest-record.ts";
import type { GuestEnd, NodeBoard, NodeView } from "@gpve/domain/node/runtime.ts";
import type { Clock } from "@gpve/kit/clock.ts";
import type { Collection } from "@gpve/store/records/port.ts";
import type { LifeWorks, VmWorks } from "./life-works.ts";

export interface ShownPhase {
  readonly phase: VmPhase | "Unknown";
  /** When it came to it, milliseconds. */
  readonly since: number;
  readonly last: VmWorks["last"];
}

export interface VmPhaseDeps {
  readonly guests: Pick<Collection<GuestRecord>, "get" | "list" | "onChange">;
  readonly board: Pick<NodeBoard, "list"> & { onChange(listener: (view: NodeView) => void): () => void };
  readonly works: LifeWorks;
  readonly clock: Pick<Clock, "now">;
}

interface Report {
  readonly at: number;
  readonly running: ReadonlySet<number>;
  /** When those were started, where the node knows. */
  readonly startedAt: ReadonlyMap<number, number>;
}

/** Long enough for a report to have seen the end of any work. */
const SETTLED_MS = 5_000;

/** One that a VM came to. */
export interface PhaseStep {
  readonly vmid: string;
  readonly node: string;
  readonly from: VmPhase | undefined;
  readonly to: VmPhase;
  readonly last: VmWorks["last"];
  /** How its process came to its end, where nobody asked for it. */
  readonly ownEnd: GuestEnd | undefined;
}

export class VmPhases {
  readonly #deps: VmPhaseDeps;
  readonly #shown = new Map<string, { phase: VmPhase; since: number }>();
  readonly #listeners = new Set<(step: PhaseStep) => void>();
  readonly #ends = new Map<string, GuestEnd>();
  readonly #stops: readonly (() => void)[];
  readonly #reports = new Map<string, Report>();
  /** There before us, and nobody has said how they are. */
  readonly #old = new Set<string>();
  /** Those whose last work may be newer than what their node reported. */
  readonly #unsettled = new Set<string>();

  constructor(deps: VmPhaseDeps) {
    this.#deps = deps;
    for (const view of deps.board.list()) this.#readReport(view);
    for (const { id } of deps.guests.list()) this.#begin(id);
    this.#stops = [
      deps.guests.onChange((id, entry) => {
        if (entry !== undefined) return this.#follow(id);
        this.#shown.delete(id);
        this.#ends.delete(id);
        deps.works.forget(id);
      }),
      deps.works.onChange((vmid) => {
        this.#unsettled.add(vmid);
        this.#follow(vmid);
      }),
      deps.board.onChange((view) => this.#reported(view)),
    ];
  }

  close(): void {
    for (const stop of this.#stops) stop();
    this.#listeners.clear();
  }

  of(vmid: string): ShownPhase {
    const shown = this.#shown.get(vmid);
    const { last } = this.#deps.works.of(vmid);
    return { phase: shown?.phase ?? "Unknown", since: shown?.since ?? this.#deps.clock.now(), last };
  }

  /** Called with every phase that a VM comes to, in order. */
  onStep(listener: (step: PhaseStep) => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  #begin(vmid: string): void {
    const phase = this.#phaseOf(vmid);
    if (phase === undefined) {
      this.#old.add(vmid);
      return;
    }
    this.#shown.set(vmid, { phase, since: this.#oldSince(vmid, phase) });
  }

  /** Since when one that was there before us is in its phase: as far as anybody can still tell. */
  #oldSince(vmid: string, phase: VmPhase): number {
    const worked = this.#deps.works.of(vmid).last?.endedAt;
    const node = this.#deps.guests.get(vmid)?.value.node ?? "";
    const happened =
      phase === "Running" ? this.#reports.get(node)?.startedAt.get(Number(vmid)) : this.#ends.get(vmid)?.at;
    const known = Math.max(worked ?? 0, happened ?? 0);
    return known > 0 ? known : this.#deps.clock.now();
  }

  #follow(vmid: string): void {
    const target = this.#phaseOf(vmid);
    if (target === undefined) return;
    const from = this.#shown.get(vmid)?.phase;
    if (from === target) return;
    const { last } = this.#deps.works.of(vmid);
    const node = this.#deps.guests.get(vmid)?.value.node ?? "";
    const about = { vmid, node, last, ownEnd: this.#ownEnd(vmid, last) };
    // How one that was there before us came to its phase is not our news.
    const isOld = this.#old.delete(vmid);
    const since = isOld ? this.#oldSince(vmid, target) : this.#deps.clock.now();
    const way = isOld ? undefined : wayTo(vmPhases, from ?? vmPhases.first, target);
    for (const phase of way ?? [target]) {
      const before = this.#shown.get(vmid)?.phase;
      this.#shown.set(vmid, { phase, since });
      const step = { ...about, from: before, to: phase };
      for (const listener of this.#listeners) listener(step);
    }
  }

  /** Follows only those of whom a report says something new: nodes have thousands, and report every few seconds. */
  #reported(view: NodeView): void {
    const before = this.#reports.get(view.node);
    const now = this.#readReport(view);
    if (now === undefined || now === before) return;
    if (before === undefined) {
      for (const { id, value } of this.#deps.guests.list()) if (value.node === view.node) this.#follow(id);
      return;
    }
    for (const vmid of now.running) if (!before.running.has(vmid)) this.#follow(String(vmid));
    for (const vmid of before.running) if (!now.running.has(vmid)) this.#follow(String(vmid));
    for (const vmid of this.#unsettled) {
      this.#follow(vmid);
      const { work, last } = this.#deps.works.of(vmid);
      if (work === undefined && (last?.endedAt ?? 0) + SETTLED_MS < now.at) this.#unsettled.delete(vmid);
    }
  }

  #readReport({ node, report }: NodeView): Report | undefined {
    const known = this.#reports.get(node);
    if (report === undefined || known?.at === report.at) return known;
    const running = new Set(
      report.guests.filter(({ status }) => status === "running").map(({ vmid }) => vmid),
    );
    for (const end of report.ends ?? []) this.#ends.set(String(end.vmid), end);
    const startedAt = new Map(
      report.guests.flatMap(({ vmid, extra }) => {
        const at = extra?.["startedAt"];
        return typeof at === "number" && Number.isSafeInteger(at) ? [[vmid, at] as const] : [];
      }),
    );
    const read = { at: report.at, running, startedAt };
    this.#reports.set(node, read);
    return read;
  }

  #ownEnd(vmid: string, last: VmWorks["last"]): GuestEnd | undefined {
    const end = this.#ends.get(vmid);
    if (end === undefined || last === undefined) return end;
    const wasAsked =
      lifeWork[last.type]?.leaves === "stopped" && (last.endedAt ?? 0) + END_GRAIN_MS >= end.at;
    return wasAsked ? undefined : end;
  }

  #phaseOf(vmid: string): VmPhase | undefined {
    const record = this.#deps.guests.get(vmid)?.value;
    if (record === undefined) return undefined;
    const report = this.#reports.get(record.node);
    const { work, last, isPaused } = this.#deps.works.of(vmid);
    return vmPhaseOf({
      reported:
        report === undefined ? undefined : { running: report.running.has(record.vmid), at: report.at },
      lock: record.summary.lock,
      work,
      last,
      isPaused,
      was: this.#shown.get(vmid)?.phase,
    });
  }
}
