import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { describe, expect, test } from "vitest";
import { VC_PHASES } from "@gpve/contracts/v1/vc-phase.ts";
import { vcPhasesPage } from "./phases-page.ts";
import { wayTo } from "./state-machine.ts";
import { nextVcPhase, vcPhases } from "./vc-phases.ts";

describe("phases of a virtual cluster", () => {
  test("are those of the contract, each reached from the first and each with a way to the end", () => {
    expect(Object.keys(vcPhases.phases).toSorted()).toEqual(VC_PHASES.toSorted());
    for (const phase of VC_PHASES) {
      expect([phase, wayTo(vcPhases, "Pending", phase)]).not.toEqual([phase, undefined]);
      expect([phase, wayTo(vcPhases, phase, "Terminating")]).not.toEqual([phase, undefined]);
    }
  });

  test("lead from asking to running, and out of Failed by retry or deletion", () => {
    expect(wayTo(vcPhases, "Pending", "Running")).toEqual(["Provisioning", "Initializing", "Running"]);
    expect(nextVcPhase("Failed", "RetryRequested")).toBe("Pending");
    expect(nextVcPhase("Failed", "DeleteRequested")).toBe("Terminating");
    expect(nextVcPhase("Stopped", "ScaleRequested")).toBeUndefined();
  });

  test("a cluster whose new workers do not come is Running, as before", () => {
    expect(nextVcPhase("Scaling", "ScaleUndone")).toBe("Running");
    expect(nextVcPhase("Running", "WorkFailed")).toBeUndefined();
  });

  test("one whose processes do not end is stopped again or deleted, and is not taken for one that failed", () => {
    expect(nextVcPhase("Stopping", "WorkFailed")).toBe("Stopping");
    expect(nextVcPhase("Stopping", "DeleteRequested")).toBe("Terminating");
  });

  test("no event leads to two places", () => {
    const keys = vcPhases.transitions.map(({ from, event }) => `${from} ${event}`);
    expect(new Set(keys).size).toBe(keys.length);
  });

  test("docs/reference/vc-phases.md is current", () => {
    const path = fileURLToPath(new URL("../../../../docs/reference/vc-phases.md", import.meta.url));
    expect(readFileSync(path, "utf8"), "run: node tools/gen/phases.ts").toBe(vcPhasesPage());
  });
});
