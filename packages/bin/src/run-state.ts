// Who runs on a data directory: one file, written when ready, believed only while that very process lives.
import { rmSync } from "node:fs";
import { readJsonFile, writeFileAtomic } from "@gpve/kit/atomic-file.ts";
import type { DataDir } from "@gpve/kit/data-dir.ts";
import { identify, isAlive, type ProcessIdentity } from "@gpve/kit/process-identity.ts";

export interface RunState {
  readonly process: ProcessIdentity;
  readonly url: string;
  readonly node: string;
  readonly startedAt: string;
  readonly version: string;
  readonly metricsUrl?: string;
}

export function readRunState(data: DataDir): RunState | undefined {
  const state = readJsonFile(data.file("run", "gpve.json")) as RunState | undefined;
  return state !== undefined && isAlive(state.process) ? state : undefined;
}

export function writeRunState(data: DataDir, state: Omit<RunState, "process">): void {
  const self = identify(process.pid);
  if (self === undefined) throw new Error("this process has no identity");
  writeFileAtomic(data.file("run", "gpve.json"), `${JSON.stringify({ process: self, ...state })}\n`);
}

export function clearRunState(data: DataDir): void {
  rmSync(data.file("run", "gpve.json"), { force: true });
}
