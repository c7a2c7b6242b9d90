// What a log of PVE's or of our cluster says: where each service ends and in which state, where it runs, and what was fenced when.
import { readFileSync } from "node:fs";
import { join } from "node:path";
import type { LogLine, Scenario } from "@gpve/domain/ha/simulator/scenario.ts";

interface ServiceEnd {
  state: string;
  node: string;
  runsOn: string;
}

export interface End {
  readonly services: Record<string, ServiceEnd>;
  /** Nodes proven dead, and nodes reset by their watchdog, each with the second. */
  readonly fenced: readonly string[];
  readonly reset: readonly string[];
}

export function readExpectedLog(folder: string): readonly LogLine[] {
  return readFileSync(join(folder, "log.expect"), "utf8")
    .split("\n")
    .flatMap((line) => {
      const parts = /^(\w+)\s+(\d+)\s+(\S+): (.*)$/.exec(line);
      return parts === null
        ? []
        : [{ level: parts[1] ?? "", atS: Number(parts[2]), who: parts[3] ?? "", text: parts[4] ?? "" }];
    });
}

export function endOf(scenario: Scenario, log: readonly LogLine[]): End {
  const services: Record<string, ServiceEnd> = {};
  for (const [sid, { state, node }] of Object.entries(scenario.manager.services)) {
    services[sid] = { state, node, runsOn: scenario.running?.get(sid) ?? "" };
  }
  const ranBefore = new Map<string, string>(scenario.running);
  const fenced: string[] = [];
  const reset: string[] = [];
  for (const { who, text, atS } of log) {
    const node = who.split("/")[0] ?? "";
    const match = (pattern: RegExp) => pattern.exec(text);
    const set = (sid: string | undefined, change: Partial<ServiceEnd>) => {
      const service = services[sid ?? ""];
      if (service !== undefined) Object.assign(service, change);
    };
    const given = match(/^execute service (\S+) add (\S+) \S+ 1$/);
    if (given !== null) ranBefore.set(given[1] ?? "", given[2] ?? "");
    const added = match(/^adding new service '(\S+)' on node '(\S+)'/);
    if (added !== null) {
      const runsOn = ranBefore.get(added[1] ?? "") ?? "";
      services[added[1] ?? ""] = { state: "new", node: added[2] ?? "", runsOn };
    }
    const changed = match(/^service '(\S+)': state changed from '\S+' to '(\w+)'(?:\s+\(node = ([^,)]+))?/);
    if (changed !== null) {
      set(changed[1], { state: changed[2] ?? "" });
      if (changed[3] !== undefined) set(changed[1], { node: changed[3] });
    }
    set(match(/^disarm: freezing service '(\S+)'/)?.[1], { state: "freeze" });
    const byHand = match(/^service '(\S+)': updating node '\S+' => '(\S+)'/);
    if (byHand !== null) set(byHand[1], { node: byHand[2] ?? "" });
    const removed = match(/^removing stale service '(\S+)'/)?.[1];
    if (removed !== undefined) delete services[removed];

    set(match(/^service status (\S+) started$/)?.[1], { runsOn: node });
    set(match(/^service status (\S+) stopped$/)?.[1], { runsOn: "" });
    set(match(/^service (\S+) - end (?:migrate|relocate)/)?.[1], { runsOn: "" });
    const moved = match(/^execute service (\S+) manual-migrate (\S+)/);
    if (moved !== null && services[moved[1] ?? ""]?.runsOn !== "") set(moved[1], { runsOn: moved[2] ?? "" });

    const dead = match(/^execute power (\S+) off$/)?.[1];
    if (dead !== undefined) {
      for (const service of Object.values(services)) if (service.runsOn === dead) service.runsOn = "";
      if (who === "watchdog") reset.push(`${dead} at ${atS}`);
    }
    const proven = match(/^SUCCEED: fencing: acknowledged - got agent lock for node '(\S+)'/)?.[1];
    if (proven !== undefined) fenced.push(`${proven} at ${atS}`);
  }
  return { services, fenced, reset };
}
