// A scenario as PVE's own simulator keeps it: a folder of `cmdlist`, `hardware_status`, `service_config` and more.
import { AppError, messageOf } from "@gpve/contracts/errors.ts";
import { given } from "@gpve/contracts/given.ts";
import { parseRules, rulesFromGroups } from "../rules.ts";
import { emptyManagerStatus } from "../model.ts";
import type { Load, ManagerStatus, NodeState, ServiceCommand, ServiceState, WantedState } from "../model.ts";
import { haSettings } from "../settings.ts";
import { addedBy, readScript } from "./read-script.ts";
import { defaultService, type Scenario } from "./scenario.ts";

type Json = Record<string, Record<string, string | number>>;

/** `file` gives the text of a file of the folder. Throws (request.invalid) with the file that is wrong. */
export function readPveCase(file: (name: string) => string | undefined): Scenario {
  const json = <T>(name: string): T | undefined => {
    const text = file(name);
    if (text === undefined) return undefined;
    try {
      return JSON.parse(text) as T;
    } catch (cause) {
      throw new AppError("request.invalid", `${name} is no JSON: ${messageOf(cause)}`, { cause });
    }
  };
  const hardware = json<Json>("hardware_status") ?? usualHardware;
  const services = json<Json>("service_config") ?? usualServices;
  const members = Map.groupBy(Object.keys(services), (sid) => String(services[sid]?.["group"] ?? ""));
  const groups = rulesFromGroups(file("groups") ?? "", members);
  const script = readScript(playable(json<string[][]>("cmdlist") ?? []), {
    nodes: new Set(Object.keys(hardware)),
    services: new Set(Object.keys(services)),
    ordersForAnybody: true,
  });
  return {
    hardware: new Map(
      Object.entries(hardware).map(([node, raw]) => [
        node,
        {
          power: raw["power"] === "on",
          network: raw["network"] === "on",
          capacity: {
            cpu: Number(raw["maxcpu"] ?? raw["cpus"] ?? 24),
            memory: Number(raw["maxmem"] ?? raw["memory"] ?? 131_072 * 1024 ** 2),
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
    rules: [...parseRules(file("rules_config") ?? ""), ...groups.rules],
    settings: haSettings(json<Json>("datacenter.cfg") ?? {}),
    manager: managerStatus(json<Record<string, unknown>>("manager_status")),
    script,
  };
}

/** Groups are rules here from the start, so nothing waits for versions of nodes, or for a node to be upgraded. */
function playable(script: readonly (readonly string[])[]): readonly (readonly string[])[] {
  return script.map((commands) => commands.filter((command) => !/^version\s/.test(command)));
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

/** A case that says nothing of them has three nodes that are off, and two services on each. */
const off = { power: "off", network: "off" };
const usualHardware: Json = { node1: off, node2: off, node3: off };

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
