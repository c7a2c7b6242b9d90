import { readFileSync } from "node:fs";
import { VM_PHASES } from "@gpve/contracts/v1/vm-phase.ts";
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { vmPhasesPage } from "./phases-page.ts";
import { wayTo } from "./state-machine.ts";
import { lifeWork, vmPhaseOf, type VmFacts } from "./vm-phase-of.ts";
import { vmPhases } from "./vm-phases.ts";

const edges = new Set(vmPhases.transitions.map(({ from, to }) => `${from}>${to}`));

describe("the table of a VM's phases", () => {
  it("has every phase, each with its meaning, each reached from the first and leading to the last", () => {
    expect(Object.keys(vmPhases.phases).toSorted()).toEqual([...VM_PHASES].toSorted());
    for (const phase of VM_PHASES) {
      expect(wayTo(vmPhases, vmPhases.first, phase)).toBeDefined();
      expect(wayTo(vmPhases, phase, vmPhases.last)).toBeDefined();
    }
  });

  it("leads from any phase to any other in steps that it has, or not at all", () => {
    for (const from of VM_PHASES)
      for (const to of VM_PHASES) {
        const way = wayTo(vmPhases, from, to);
        if (from === to) expect(way).toEqual([]);
        let at = from;
        for (const next of way ?? []) {
          expect(edges).toContain(`${at}>${next}`);
          at = next;
        }
        if (way !== undefined) expect(at).toBe(to);
      }
    expect(wayTo(vmPhases, "Deleting", "Running")).toBeUndefined();
  });

  it("is the page in the documents", () => {
    const page = new URL("../../../../docs/reference/vm-phases.md", import.meta.url);
    expect(readFileSync(page, "utf8"), "run: node tools/gen/phases.ts").toBe(vmPhasesPage());
  });

  it("passes what must have been passed", () => {
    expect(wayTo(vmPhases, "Stopped", "Running")).toEqual(["Starting", "Running"]);
    expect(wayTo(vmPhases, "Running", "Stopped")).toEqual(["Stopping", "Stopped"]);
    expect(wayTo(vmPhases, "Failed", "Running")).toEqual(["Stopped", "Starting", "Running"]);
  });
});

describe("the phase of a VM", () => {
  const facts = (more: Partial<VmFacts>): VmFacts => ({
    reported: { running: false, at: 100_000 },
    lock: undefined,
    work: undefined,
    last: undefined,
    isPaused: false,
    ...more,
  });
  const running = { running: true, at: 100_000 };

  it.each([
    ["Stopped", {}],
    ["Running", { reported: running }],
    ["Paused", { reported: running, isPaused: true }],
    ["Stopped", { isPaused: true }],
    ["Starting", { work: { type: "qmstart" } }],
    ["Stopping", { reported: running, work: { type: "qmshutdown" } }],
    ["Snapshotting", { reported: running, work: { type: "qmsnapshot" } }],
    ["Stopped", { work: { type: "qmsnapshot" } }],
    ["Creating", { lock: "clone" }],
    ["Running", { reported: running, lock: "backup" }],
    ["Deleting", { work: { type: "qmdestroy" } }],
    ["Failed", { last: { type: "qmstart", ok: false, endedAt: 50_000 } }],
    ["Stopped", { last: { type: "qmstop", ok: false, endedAt: 50_000 } }],
    ["Running", { reported: running, last: { type: "qmsnapshot", ok: false, endedAt: 50_000 } }],
    ["Stopped", { last: { type: "reset-state", ok: true, endedAt: 50_000 } }],
  ] as const)("is %s: %j", (phase, more) => {
    expect(vmPhaseOf(facts(more))).toBe(phase);
  });

  it("believes work that ended after the last report, and a later report more", () => {
    const last = { type: "qmstart", ok: true, endedAt: 100_000 };
    expect(vmPhaseOf(facts({ last }))).toBe("Running");
    expect(vmPhaseOf(facts({ last, reported: { running: false, at: 101_000 } }))).toBe("Stopped");
    expect(vmPhaseOf(facts({ last: { ...last, type: "qmstop" }, reported: running }))).toBe("Stopped");
  });

  it("is not known before the node has said anything, whatever else is", () => {
    fc.assert(
      fc.property(fc.constantFrom(...Object.keys(lifeWork)), fc.boolean(), (type, ok) => {
        const phase = vmPhaseOf(facts({ reported: undefined, last: { type, ok, endedAt: 1 } }));
        const leaves = ok ? lifeWork[type]?.leaves : undefined;
        expect(phase).toBe(leaves === undefined ? undefined : leaves === "running" ? "Running" : "Stopped");
      }),
    );
  });
});
