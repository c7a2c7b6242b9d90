// Reads one case of the suite, and what its log says about how it ends.
import { existsSync, readFileSync } from "node:fs";
import { given } from "@gpve/contracts/given.ts";
import { join } from "node:path";
import { parseRules, rulesFromGroups } from "@gpve/domain/ha/rules.ts";
import { emptyManagerStatus } from "@gpve/domain/ha/model.ts";
import type {
  HaSettings,
  Load,
  ManagerStatus,
  NodeState,
  ServiceCommand,
  ServiceState,
  WantedState,
} from "@gpve/domain/ha/model.ts";
import { defaultService, defaultSettings } from "@gpve/domain/ha/simulator/scenario.ts";
import type { LogLine, Scenario } from "@gpve/domain/ha/simulator/scenario.ts";

type Json = Record<string, Record<string, string | number>>;

export function readScenario(folder: string): Scenario {
  const json = <T>(name: string): T | undefined =>
    existsSync(join(folder, name)) ? (JSON.parse(readFileSync(join(folder, name), "utf8")) as T) : undefined;
  // A case that says nothing of them has three nodes that are off, and two services on each.
  const hardware = json<Json>("hardware_status") ?? {
    node1: { power: "off", network: "off" },
    node2: { power: "off", network: "off" },
    node3: { power: "off", network: "off" },
  };
  const services = json<Json>("service_config") ?? usualServices;
  const text = (name: string) =>
    existsSync(join(folder, name)) ? readFileSync(join(folder, name), "utf8") : "";
  const members = Map.groupBy(Object.keys(services), (sid) => String(services[sid]?.["group"] ?? ""));
  const groups = rulesFromGroups(text("groups"), members);
  const script = playable(json<string[][]>("cmdlist") ?? []);
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
          failback: isOn(raw["failback"] ?? 1) && !groups.withoutFailback.has(sid),
          autoRebalance: isOn(raw["auto-rebalance"] ?? 1),
        },
      ]),
    ),
    running: new Map(
      Object.keys(hardware).flatMap((node) =>
        Object.entries(json<Record<string, string | number>>(`service_status_${node}`) ?? {})
          .filter(([, runs]) => isOn(runs))
          .map(([sid]) => [sid, node] as const),
      ),
    ),
    configured: new Map([
      ...usualLoads([...Object.keys(services), ...addedBy(script)]),
      ...loads(json<Json>("static_service_stats"), "maxcpu", "maxmem"),
    ]),
    measured: loads(json<Json>("dynamic_service_stats"), "cpu", "mem"),
    rules: [...parseRules(text("rules_config")), ...groups.rules],
    settings: settings(json<Json>("datacenter.cfg")),
    manager: managerStatus(json<Record<string, unknown>>("manager_status")),
    script,
  };
}

/** Groups are rules here from the start, so nothing waits for versions of nodes, or for a node to be upgraded. */
function playable(script: readonly (readonly string[])[]): readonly (readonly string[])[] {
  return script.map((commands) => commands.filter((command) => !/^version\s/.test(command)));
}

function addedBy(script: readonly (readonly string[])[]): readonly string[] {
  return script.flat().flatMap((command) => /^service\s+(\S+)\s+add\s/.exec(command)?.[1] ?? []);
}

/** What a case says of no service follows from its number: 215 has three processors and eight GiB. */
function usualLoads(sids: readonly string[]): ReadonlyMap<string, Load> {
  return new Map(
    sids.flatMap((sid): [string, Load][] => {
      const [, cpus, memory] = /^\w+:(\d)(\d\d)/.exec(sid) ?? [];
      if (cpus === undefined) return [];
      return [[sid, { cpu: Number(cpus) + 1, memory: (Number(memory) + 1) * 2 ** 29 }]];
    }),
  );
}

const usualServices: Json = Object.fromEntries(
  [101, 102, 103, 104, 105, 106].map((id, at) => {
    const node = `node${(at % 3) + 1}`;
    return [`vm:${id}`, { node, group: `prefer_${node}` }];
  }),
);

function isOn(value: string | number): boolean {
  return ["1", "on", "yes", "true"].includes(String(value));
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
  const auto = isOn(crs["ha-auto-rebalance"] ?? 0);
  return {
    shutdownPolicy: (raw?.["ha"]?.["shutdown_policy"] ??
      defaultSettings.shutdownPolicy) as HaSettings["shutdownPolicy"],
    scheduler: (crs["ha"] ?? "basic") as HaSettings["scheduler"],
    rebalanceOnStart: isOn(crs["ha-rebalance-on-start"] ?? 0),
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
  readonly timeout?: number;
  readonly failed_nodes?: readonly string[];
  readonly cmd?: readonly [string, string | number];
}

function managerStatus(raw: Record<string, unknown> | undefined): ManagerStatus {
  const services = (raw?.["service_status"] ?? {}) as Record<string, RawService>;
  // Older managers kept them beside the services.
  const tried = (raw?.["relocate_tried_nodes"] ?? {}) as Record<string, readonly string[]>;
  return {
    ...emptyManagerStatus(),
    nodes: (raw?.["node_status"] ?? {}) as Record<string, NodeState>,
    services: Object.fromEntries(
      Object.entries(services).map(([sid, { state, node, uid = sid, target, ...more }]) => [
        sid,
        {
          state,
          node,
          uid,
          ...given({
            target,
            maintenanceNode: more.maintenance_node,
            timeoutS: more.timeout,
            failedNodes: triedBy(more.failed_nodes ?? tried[sid]),
            command: more.cmd === undefined ? undefined : commandOf(more.cmd),
          }),
        },
      ]),
    ),
    maintenance: Object.fromEntries(
      Object.entries((raw?.["node_request"] ?? {}) as Record<string, Record<string, string | number>>)
        .filter(([, wanted]) => isOn(wanted["maintenance"] ?? 0))
        .map(([node]) => [node, true as const]),
    ),
    ...given({ disarm: disarmOf(raw?.["disarm"]) }),
  };
}

function triedBy(nodes: readonly string[] | undefined): string[] | undefined {
  return nodes === undefined ? undefined : [...nodes];
}

/** A command that was read and not carried out yet. */
function commandOf([kind, about]: readonly [string, string | number]): ServiceCommand | undefined {
  if (kind === "stop") return { kind, timeoutS: Number(about) };
  return kind === "migrate" || kind === "relocate" ? { kind, target: String(about) } : undefined;
}

function disarmOf(value: unknown): ManagerStatus["disarm"] {
  if (typeof value !== "object" || value === null) return undefined;
  const { mode, state } = value as Partial<Record<string, string>>;
  return {
    mode: mode === "ignore" ? "ignore" : "freeze",
    state: state === "disarmed" ? "disarmed" : "pending",
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
