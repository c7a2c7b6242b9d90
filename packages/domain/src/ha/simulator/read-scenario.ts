// A scenario as a person writes it: nodes, services, rules and a script of what happens.
import { AppError } from "@gpve/contracts/errors.ts";
import { emptyManagerStatus, type Load, type ServiceConfig, type WantedState } from "../model.ts";
import { parseRules } from "../rules.ts";
import { defaultService, defaultSettings, type Scenario } from "./scenario.ts";

type Fields = Readonly<Record<string, unknown>>;

const GIB = 1024 ** 3;
const DEFAULT_CAPACITY: Load = { cpu: 24, memory: 128 * GIB };
const WANTED: readonly WantedState[] = ["started", "stopped", "disabled", "ignored"];
const POLICIES = ["freeze", "failover", "conditional", "migrate"] as const;
const COMMANDS = /^(?:power|network|shutdown|reboot|restart-lrm|crm|cfs|service|delay|skip-round)\b/;

/** Throws (request.invalid) with the key that is wrong and what it could be. */
export function readScenario(value: unknown): Scenario {
  const top = fields(value, "the scenario", ["nodes", "services", "rules", "shutdownPolicy", "script"]);
  const nodes = nodesOf(top["nodes"]);
  const services = new Map(
    Object.entries(fields(top["services"] ?? {}, "services")).map(([sid, raw]) => [
      sid,
      serviceOf(sid, raw, nodes),
    ]),
  );
  const { rules = "" } = top;
  if (typeof rules !== "string") throw wrong("rules", "must be the text of a rules file");
  return {
    hardware: new Map(
      [...nodes].map(([node, capacity]) => [node, { power: false, network: false, capacity }]),
    ),
    services,
    configured: new Map(),
    measured: new Map(),
    rules: parseRules(rules),
    settings: {
      ...defaultSettings,
      shutdownPolicy: oneOf(
        top["shutdownPolicy"] ?? defaultSettings.shutdownPolicy,
        POLICIES,
        "shutdownPolicy",
      ),
    },
    manager: emptyManagerStatus(),
    // Whoever tells of a node that fails takes it for granted that all were running.
    script: [
      [...nodes.keys()].map((node) => `power ${node} on`),
      ...scriptOf(top["script"], nodes, services),
    ],
  };
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

function serviceOf(sid: string, raw: unknown, nodes: ReadonlyMap<string, Load>): ServiceConfig {
  const at = `services.${sid}`;
  if (!/^(?:vm|ct):[1-9]\d*$/.test(sid)) throw wrong(at, "must be named as vm:100 or ct:100");
  const { node, state, maxRestart, maxRelocate, failback } = fields(raw, at, [
    "node",
    "state",
    "maxRestart",
    "maxRelocate",
    "failback",
  ]);
  return {
    ...defaultService,
    node: oneOf(node, [...nodes.keys()], `${at}.node`),
    state: oneOf(state ?? defaultService.state, WANTED, `${at}.state`),
    maxRestart: numberOf(maxRestart ?? defaultService.maxRestart, `${at}.maxRestart`),
    maxRelocate: numberOf(maxRelocate ?? defaultService.maxRelocate, `${at}.maxRelocate`),
    failback: oneOf(failback ?? defaultService.failback, [true, false], `${at}.failback`),
  };
}

function scriptOf(
  value: unknown,
  nodes: ReadonlyMap<string, Load>,
  services: ReadonlyMap<string, ServiceConfig>,
): readonly (readonly string[])[] {
  if (value === undefined) return [];
  if (!Array.isArray(value)) throw wrong("script", "must be a list of commands, or of lists of commands");
  return value.map((step: unknown, index) => {
    const commands: readonly unknown[] = Array.isArray(step) ? step : [step];
    return commands.map((command) => {
      const at = `script[${index}]`;
      if (typeof command !== "string" || !COMMANDS.test(command))
        throw wrong(at, "must begin with power, network, shutdown, reboot, crm, service or delay");
      const [verb = "", subject = ""] = command.split(/\s+/);
      if (verb === "service") {
        if (!services.has(subject) && !/\sadd\s/.test(command))
          throw wrong(at, `names the service '${subject}', which is not under services`);
      } else if (verb !== "delay" && verb !== "skip-round" && !nodes.has(subject))
        throw wrong(at, `names the node '${subject}', which is not under nodes`);
      requireForm(at, command, nodes);
      return command;
    });
  });
}

/** By the word that a command begins with: all of it, and how it is written. */
const FORMS: Readonly<Record<string, readonly [RegExp, string]>> = {
  power: [/^power \S+ (?:on|off)$/, "power NODE on|off"],
  network: [/^network \S+ (?:on|off)$/, "network NODE on|off"],
  shutdown: [/^shutdown \S+$/, "shutdown NODE"],
  reboot: [/^reboot \S+$/, "reboot NODE"],
  "restart-lrm": [/^restart-lrm \S+$/, "restart-lrm NODE"],
  delay: [/^delay \d{1,5}$/, "delay SECONDS, less than 100000"],
  "skip-round": [/^skip-round (?:crm|lrm)(?: \d+)?$/, "skip-round crm|lrm [ROUNDS]"],
  cfs: [/^cfs \S+ (?:rw|update) (?:work|fail)$/, "cfs NODE rw|update work|fail"],
  crm: [
    /^crm \S+ (?:start|stop|(?:en|dis)able-node-maintenance|arm-ha|disarm-ha (?:freeze|ignore))$/,
    "crm NODE start|stop|enable-node-maintenance|disable-node-maintenance|arm-ha|disarm-ha freeze|ignore",
  ],
  service: [
    /^service \S+ (?:started|enabled|stopped|disabled|ignored|delete|stop \d+|(?:migrate|relocate|manual-migrate) \S+|(?:un)?lock(?: \S+)?|add \S+(?: (?:started|stopped|disabled|ignored)(?: [01])?)?|set-(?:static|dynamic)-stats(?: (?:max)?(?:cpu|mem) [\d.]+)+)$/,
    "service ID started|stopped|disabled|ignored|delete, stop SECONDS, migrate|relocate NODE, lock|unlock, or add NODE",
  ],
};

function requireForm(at: string, command: string, nodes: ReadonlyMap<string, Load>): void {
  const words = command.trim().split(/\s+/);
  const [form, written] = FORMS[words[0] ?? ""] ?? [];
  if (form !== undefined && !form.test(words.join(" "))) throw wrong(at, `must be written as ${written}`);
  const [verb, , what = "", node = ""] = words;
  const isPlace = verb === "service" && /^(?:add|migrate|relocate|manual-migrate)$/.test(what);
  if (isPlace && !nodes.has(node)) throw wrong(at, `names the node '${node}', which is not under nodes`);
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

function wrong(at: string, why: string): AppError {
  return new AppError("request.invalid", `${at} ${why}`);
}
