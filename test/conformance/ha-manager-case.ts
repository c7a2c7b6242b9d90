// Reads one case of the suite, and what its log says about how it ends.
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { parseRules, rulesFromGroups } from "@gpve/domain/ha/rules.ts";
import { emptyManagerStatus } from "@gpve/domain/ha/model.ts";
import type {
  HaSettings,
  Load,
  ManagerStatus,
  NodeState,
  ServiceState,
  WantedState,
} from "@gpve/domain/ha/model.ts";
import { defaultService, defaultSettings } from "@gpve/domain/ha/simulator/scenario.ts";
import type { LogLine, Scenario } from "@gpve/domain/ha/simulator/scenario.ts";

type Json = Record<string, Record<string, string | number>>;

export function readScenario(folder: string): Scenario {
  const json = <T>(name: string): T | undefined =>
    existsSync(join(folder, name)) ? (JSON.parse(readFileSync(join(folder, name), "utf8")) as T) : undefined;
  const hardware = json<Json>("hardware_status") ?? {};
  const services = json<Json>("service_config") ?? {};
  const text = (name: string) =>
    existsSync(join(folder, name)) ? readFileSync(join(folder, name), "utf8") : "";
  const members = Map.groupBy(Object.keys(services), (sid) => String(services[sid]?.["group"] ?? ""));
  const groups = rulesFromGroups(text("groups"), members);
  return {
    hardware: new Map(
      Object.entries(hardware).map(([node, raw]) => [
        node,
        {
          power: raw["power"] === "on",
          network: raw["network"] === "on",
          capacity: {
            cpu: Number(raw["maxcpu"] ?? 24),
            memory: Number(raw["maxmem"] ?? 131_072 * 1024 ** 2),
          },
        },
      ]),
    ),
    services: new Map(
      Object.entries(services).map(([sid, raw]) => [
        sid,
        {
          ...defaultService,
          node: String(raw["node"]),
          state: (raw["state"] === "enabled" ? "started" : (raw["state"] ?? "disabled")) as WantedState,
          maxRestart: Number(raw["max_restart"] ?? defaultService.maxRestart),
          maxRelocate: Number(raw["max_relocate"] ?? defaultService.maxRelocate),
          failback: Number(raw["failback"] ?? 1) === 1 && !groups.withoutFailback.has(sid),
          autoRebalance: Number(raw["auto-rebalance"] ?? 1) === 1,
        },
      ]),
    ),
    configured: loads(json<Json>("static_service_stats"), "maxcpu", "maxmem"),
    measured: loads(json<Json>("dynamic_service_stats"), "cpu", "mem"),
    rules: [...parseRules(text("rules_config")), ...groups.rules],
    settings: settings(json<Json>("datacenter.cfg")),
    manager: managerStatus(json<Record<string, unknown>>("manager_status")),
    script: json<string[][]>("cmdlist") ?? [],
  };
}

function loads(raw: Json | undefined, cpu: string, memory: string): ReadonlyMap<string, Load> {
  return new Map(
    Object.entries(raw ?? {}).map(([sid, load]) => [
      sid,
      { cpu: Number(load[cpu] ?? 0), memory: Number(load[memory] ?? 0) },
    ]),
  );
}

function settings(raw: Json | undefined): HaSettings {
  const crs = raw?.["crs"] ?? {};
  const auto = Number(crs["ha-auto-rebalance"] ?? 0) === 1;
  return {
    shutdownPolicy: (raw?.["ha"]?.["shutdown_policy"] ??
      defaultSettings.shutdownPolicy) as HaSettings["shutdownPolicy"],
    scheduler: (crs["ha"] ?? "basic") as HaSettings["scheduler"],
    rebalanceOnStart: Number(crs["ha-rebalance-on-start"] ?? 0) === 1,
    autoRebalance: auto
      ? {
          threshold: Number(crs["ha-auto-rebalance-threshold"] ?? 30) / 100,
          margin: Number(crs["ha-auto-rebalance-margin"] ?? 10) / 100,
          holdRounds: Number(crs["ha-auto-rebalance-hold-duration"] ?? 3),
          method: crs["ha-auto-rebalance-method"] === "topsis" ? "topsis" : "bruteforce",
        }
      : undefined,
  };
}

interface RawService {
  readonly state: ServiceState;
  readonly node: string;
  readonly uid?: string;
  readonly target?: string;
  readonly maintenance_node?: string;
}

function managerStatus(raw: Record<string, unknown> | undefined): ManagerStatus {
  const services = (raw?.["service_status"] ?? {}) as Record<string, RawService>;
  return {
    ...emptyManagerStatus(),
    nodes: (raw?.["node_status"] ?? {}) as Record<string, NodeState>,
    services: Object.fromEntries(
      Object.entries(services).map(([sid, { state, node, uid, target, maintenance_node: left }]) => [
        sid,
        { state, node, uid: uid ?? sid, target, maintenanceNode: left },
      ]),
    ),
  };
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
