// The watchdog outside each lab node: when its fence process armed it and does not feed it, the node is reset, which here
// means that every process of it ends at once.
import { rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { leaseTimes } from "@gpve/domain/ha/node-lease.ts";
import { readJsonFile, readTextFile } from "@gpve/kit/atomic-file.ts";
import type { Clock } from "@gpve/kit/clock.ts";
import type { Logger } from "@gpve/kit/logger.ts";
import { every } from "@gpve/kit/every.ts";
import type { Lab, LabNode } from "./lab-plan.ts";
import { nodeProcesses, signalNode } from "./node-processes.ts";

const LOOK_MS = 100;

export interface WatchdogDeps {
  readonly clock: Clock;
  readonly log: Logger;
  readonly reset: (node: LabNode) => void;
}

/** In the node's folder; the node sees it below DIR/node. */
export function watchdogFile(folder: string): string {
  return join(folder, "run", "watchdog");
}

export interface PowerLoss {
  readonly at: number;
  readonly by: "watchdog" | "killed";
}

/** When a node lost its power, and by whom; undefined = it has not since it was last started. */
export function powerLoss(node: LabNode): PowerLoss | undefined {
  const { at, by } = (readJsonFile(lossNote(node)) ?? {}) as Partial<PowerLoss>;
  return at === undefined ? undefined : { at, by: by === "killed" ? "killed" : "watchdog" };
}

/** For whoever ends all of a node's processes: a watchdog without power bites nobody, and who it was is read later. */
export function notePowerLoss(node: LabNode, loss: PowerLoss): void {
  writeFileSync(watchdogFile(node.folder), "off\n");
  writeFileSync(lossNote(node), `${JSON.stringify(loss)}\n`);
}

export async function keepWatchdogs(lab: Lab, deps: WatchdogDeps, signal: AbortSignal): Promise<void> {
  const { clock, log, reset } = deps;
  const fed = new Map<string, { readonly text: string; readonly at: number }>();
  await every(LOOK_MS, { clock, signal }, async () => {
    for (const node of lab.nodes) {
      const text = readTextFile(watchdogFile(node.folder)) ?? "off";
      const now = clock.monotonic();
      const before = fed.get(node.name);
      if (before?.text !== text) fed.set(node.name, { text, at: now });
      if (!text.startsWith("armed") || before?.text !== text) continue;
      if (now - before.at < leaseTimes.watchdogMs) continue;
      log.warn({ node: node.name }, "not fed: the watchdog resets the node");
      reset(node);
      notePowerLoss(node, { at: clock.now(), by: "watchdog" });
    }
  });
}

/** Its power is back. */
export function forgetPowerLoss(node: LabNode): void {
  rmSync(lossNote(node), { force: true });
}

/** As a loss of power. */
export function resetNode(node: LabNode): void {
  do signalNode(node, "SIGKILL");
  while (nodeProcesses(node).length > 0);
}

function lossNote(node: LabNode): string {
  return join(node.folder, "run", "power-loss.json");
}
