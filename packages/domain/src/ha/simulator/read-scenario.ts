// A scenario as a person writes it: nodes, services, rules and a script of what happens.
import type { Fields } from "@gpve/contracts/json-object.ts";
import { emptyManagerStatus, type Load, type ServiceConfig, type WantedState } from "../model.ts";
import { haSettings } from "../settings.ts";
import { addedBy, readScript, wrong } from "./read-script.ts";
import { requireRules } from "./require-rules.ts";
import { defaultService, type Scenario } from "./scenario.ts";

const GIB = 1024 ** 3;
const DEFAULT_CAPACITY: Load = { cpu: 24, memory: 128 * GIB };
const WANTED: readonly WantedState[] = ["started", "stopped", "disabled", "ignored"];
const TOP_KEYS = ["nodes", "services", "rules", "shutdownPolicy", "crs", "script"];
const SERVICE_KEYS =
  "node state maxRestart maxRelocate failback autoRebalance runs cpus memoryGiB usesCpus usesMemoryGiB".split(
    " ",
  );
/** As in PVE's `crs`. */
const CRS_KEYS =
  "ha ha-rebalance-on-start ha-auto-rebalance ha-auto-rebalance-threshold ha-auto-rebalance-margin ha-auto-rebalance-hold-duration ha-auto-rebalance-method".split(
    " ",
  );
const POLICIES = ["freeze", "failover", "conditional", "migrate"] as const;

/** Throws (request.invalid) with the key that is wrong and what it could be. */
export function readScenario(value: unknown): Scenario {
  const top = fields(value, "the scenario", TOP_KEYS);
  const nodes = nodesOf(top["nodes"]);
  const written = Object.entries(fields(top["services"] ?? {}, "services")).map(
    ([sid, raw]) => [sid, serviceOf(sid, raw, nodes)] as const,
  );
  const { rules = "", shutdownPolicy = "conditional", crs = {} } = top;
  if (typeof rules !== "string") throw wrong("rules", "must be the text of a rules file");
  const policy = oneOf(shutdownPolicy, POLICIES, "shutdownPolicy");
  const names = [...nodes.keys()];
  const script = readScript(top["script"], {
    nodes: new Set(names),
    services: new Set(written.map(([sid]) => sid)),
  });
  // Whoever tells of a node that fails takes it for granted that all were running.
  const begins = script[0]?.some((command) => /^power \S+ on$/.test(command)) === true;
  return {
    hardware: new Map(
      [...nodes].map(([node, capacity]) => [node, { power: false, network: false, capacity }]),
    ),
    services: new Map(written.map(([sid, { config }]) => [sid, config])),
    running: new Map(written.flatMap(([sid, { config, runs }]) => (runs ? [[sid, config.node]] : []))),
    configured: new Map(written.map(([sid, { configured }]) => [sid, configured])),
    measured: new Map(written.map(([sid, { measured }]) => [sid, measured])),
    rules: requireRules(rules, {
      nodes: names,
      services: new Set([...written.map(([sid]) => sid), ...addedBy(script)]),
    }),
    settings: haSettings({ ha: { shutdown_policy: policy }, crs: crsOf(crs) }),
    manager: emptyManagerStatus(),
    script: begins ? script : [names.map((node) => `power ${node} on`), ...script],
  };
}

function crsOf(value: unknown): Fields {
  const crs = fields(value, "crs", CRS_KEYS);
  if (crs["ha"] !== undefined) oneOf(crs["ha"], ["basic", "static", "dynamic"], "crs.ha");
  const method = crs["ha-auto-rebalance-method"];
  if (method !== undefined) oneOf(method, ["bruteforce", "topsis"], "crs.ha-auto-rebalance-method");
  for (const key of ["threshold", "margin", "hold-duration"].map((each) => `ha-auto-rebalance-${each}`))
    if (crs[key] !== undefined) numberOf(crs[key], `crs.${key}`);
  for (const key of ["ha-rebalance-on-start", "ha-auto-rebalance"])
    if (crs[key] !== undefined) oneOf(crs[key], [true, false, 0, 1], `crs.${key}`);
  return crs;
}

function nodesOf(value: unknown): ReadonlyMap<string, Load> {
  if (Array.isArray(value) && value.length > 0 && value.every((name) => typeof name === "string"))
    return new Map((value as readonly string[]).map((name) => [name, DEFAULT_CAPACITY]));
  if (typeof value !== "object" || value === null || Array.isArray(value) || Object.keys(value).length === 0)
    throw wrong("nodes", "must name at least one node: [n1, n2, n3], or n1: { cpus: 8, memoryGiB: 64 }");
  return new Map(
    Object.entries(value).map(([node, raw]: [string, unknown]) => {
      const { cpus, memoryGiB } = fields(raw ?? {}, `nodes.${node}`, ["cpus", "memoryGiB"]);
      return [
        node,
        {
          cpu: numberOf(cpus ?? DEFAULT_CAPACITY.cpu, `nodes.${node}.cpus`),
          memory: numberOf(memoryGiB ?? DEFAULT_CAPACITY.memory / GIB, `nodes.${node}.memoryGiB`) * GIB,
        },
      ];
    }),
  );
}

interface WrittenService {
  readonly config: ServiceConfig;
  readonly runs: boolean;
  readonly configured: Load;
  readonly measured: Load;
}

function serviceOf(sid: string, raw: unknown, nodes: ReadonlyMap<string, Load>): WrittenService {
  const at = `services.${sid}`;
  if (!/^(?:vm|ct|fa):[1-9]\d*$/.test(sid))
    throw wrong(at, "must be named as vm:100 or ct:100; fa:100 is one that fails by its digits");
  const given = fields(raw, at, SERVICE_KEYS);
  const number = (key: string, or: number): number => numberOf(given[key] ?? or, `${at}.${key}`);
  const flag = (key: string, or: boolean): boolean => oneOf(given[key] ?? or, [true, false], `${at}.${key}`);
  const configured = { cpu: number("cpus", 1), memory: number("memoryGiB", 1) * GIB };
  return {
    config: {
      node: oneOf(given["node"], [...nodes.keys()], `${at}.node`),
      state: oneOf(given["state"] ?? defaultService.state, WANTED, `${at}.state`),
      maxRestart: number("maxRestart", defaultService.maxRestart),
      maxRelocate: number("maxRelocate", defaultService.maxRelocate),
      failback: flag("failback", defaultService.failback),
      autoRebalance: flag("autoRebalance", defaultService.autoRebalance),
    },
    runs: flag("runs", false),
    configured,
    measured: {
      cpu: number("usesCpus", configured.cpu),
      memory: number("usesMemoryGiB", configured.memory / GIB) * GIB,
    },
  };
}

function fields(value: unknown, at: string, known?: readonly string[]): Fields {
  if (typeof value !== "object" || value === null || Array.isArray(value))
    throw wrong(at, "must be a mapping of names to values");
  const strange = Object.keys(value).find((key) => known !== undefined && !known.includes(key));
  if (strange !== undefined) throw wrong(at, `has no '${strange}'; it knows ${(known ?? []).join(", ")}`);
  return value as Fields;
}

function oneOf<T>(value: unknown, allowed: readonly T[], at: string): T {
  const found = allowed.find((each) => each === value);
  if (found === undefined) throw wrong(at, `must be one of ${allowed.join(", ")}`);
  return found;
}

function numberOf(value: unknown, at: string): number {
  if (typeof value !== "number" || !Number.isFinite(value) || value < 0)
    throw wrong(at, "must be a number that is not negative");
  return value;
}
