// Evens the load out, one move at a time: only where the imbalance is large, has lasted, and a move takes a good part
// of it away. Services that must stay together move together.
import type { ServiceStep } from "./service-step.ts";
import type { AutoRebalance, Load, ManagerStatus, ServiceStatus } from "./model.ts";
import { allowedNodes } from "./select-node.ts";
import type { Placement } from "./select-node.ts";
import { closenessToIdeal } from "./topsis.ts";

interface Move {
  readonly sids: readonly string[];
  readonly target: string;
  readonly imbalance: number;
  readonly criteria: readonly number[];
}

export class ServiceRebalancer {
  #rounds = 0;

  /** The commands that this round calls for: one at most. */
  round(context: ServiceStep, status: ManagerStatus): readonly string[] {
    const settings = context.env.settings().autoRebalance;
    if (settings === undefined || status.disarm !== undefined) return [];
    const services = Object.values(status.services);
    // What is under way changes the loads: look again when it is done.
    if (services.some(({ state }) => !["started", "stopped", "error"].includes(state))) return [];
    const placement = whereTakingPart(context.placement());
    const loads = loadsOf(context, placement.online, status.services);
    const now = imbalance(context, loads);
    if (now <= settings.threshold) {
      this.#rounds = 0;
      return [];
    }
    if (++this.#rounds < settings.holdRounds) return [];
    const move = bestMove(context, placement, loads, settings);
    if (move === undefined || now - move.imbalance < settings.margin * now) return [];
    this.#rounds = 0;
    const [leader = ""] = move.sids;
    const change = `expected change for imbalance from ${now.toFixed(2)} to ${move.imbalance.toFixed(2)}`;
    context.env.log("info", `auto rebalance - migrate ${leader} to ${move.target} (${change})`);
    return [`${leader.startsWith("vm:") ? "migrate" : "relocate"} ${leader} ${move.target}`];
  }
}

/** Nodes that get nothing new would look as if they had room for much. */
function whereTakingPart(placement: Placement): Placement {
  const { closed, online } = placement;
  return closed === undefined
    ? placement
    : { ...placement, online: online.filter((node) => !closed.has(node)) };
}

type Loads = ReadonlyMap<string, Load>;

function loadsOf(
  context: ServiceStep,
  online: readonly string[],
  services: Readonly<Record<string, ServiceStatus>>,
): Loads {
  const loads = new Map<string, Load>(online.map((node) => [node, { cpu: 0, memory: 0 }]));
  for (const [sid, service] of Object.entries(services)) {
    const at = loads.get(service.node);
    if (at === undefined || service.state !== "started") continue;
    loads.set(service.node, plus(at, loadOf(context, sid), 1));
  }
  return loads;
}

function loadOf(context: ServiceStep, sid: string): Load {
  return context.env.serviceLoad(sid, context.env.settings().scheduler === "dynamic");
}

function plus(a: Load, b: Load, sign: 1 | -1): Load {
  return { cpu: a.cpu + sign * b.cpu, memory: a.memory + sign * b.memory };
}

function shares(context: ServiceStep, loads: Loads): readonly (readonly [number, number])[] {
  return [...loads].map(([node, load]) => {
    const capacity = context.env.nodeCapacity(node);
    return [load.cpu / capacity.cpu, load.memory / capacity.memory];
  });
}

/** Standard deviation over mean of the nodes' loads. */
function imbalance(context: ServiceStep, loads: Loads): number {
  const values = shares(context, loads).map(([cpu, memory]) => (cpu + memory) / 2);
  const mean = values.reduce((sum, value) => sum + value, 0) / values.length;
  if (values.length === 0 || mean === 0) return 0;
  return Math.sqrt(values.reduce((sum, value) => sum + (value - mean) ** 2, 0) / values.length) / mean;
}

function bestMove(
  context: ServiceStep,
  placement: Placement,
  loads: Loads,
  settings: AutoRebalance,
): Move | undefined {
  const moves: Move[] = [];
  const seen = new Set<string>();
  for (const [sid, service] of Object.entries(placement.services).toSorted(([a], [b]) => (a < b ? -1 : 1))) {
    const sids = [sid, ...(placement.rules.together.get(sid) ?? [])].toSorted();
    if (seen.has(sid) || !sids.every((each) => mayMove(context, placement, each, service.node))) continue;
    for (const each of sids) seen.add(each);
    for (const target of placement.online) {
      if (target === service.node || !sids.every((each) => suits(placement, each, target))) continue;
      const weight = sids.map((each) => loadOf(context, each)).reduce((sum, load) => plus(sum, load, 1));
      const after = new Map(loads);
      after.set(service.node, plus(loads.get(service.node) ?? { cpu: 0, memory: 0 }, weight, -1));
      after.set(target, plus(loads.get(target) ?? { cpu: 0, memory: 0 }, weight, 1));
      moves.push({
        sids,
        target,
        imbalance: imbalance(context, after),
        criteria: criteria(shares(context, after)),
      });
    }
  }
  if (settings.method === "bruteforce")
    return moves.toSorted((a, b) => rounded(a.imbalance) - rounded(b.imbalance))[0];
  const closeness = closenessToIdeal(
    moves.map((move) => move.criteria),
    [-1, -2, -5, -10],
  );
  const best = closeness.indexOf(Math.max(...closeness));
  return moves[best];
}

/** Equal moves must stay equal whatever the order of additions: then the first service and node are taken. */
function rounded(value: number): number {
  return Math.round(value * 1e9);
}

function mayMove(context: ServiceStep, placement: Placement, sid: string, node: string): boolean {
  const service = placement.services[sid];
  return (
    service?.state === "started" &&
    service.node === node &&
    placement.closed?.has(node) !== true &&
    context.config.get(sid)?.autoRebalance === true
  );
}

/** Allowed there, and not less wanted than where it is: a service would only be brought back. */
function suits(placement: Placement, sid: string, target: string): boolean {
  const home = placement.rules.nodeAffinity.get(sid);
  const here = placement.services[sid]?.node ?? "";
  const rank = (node: string) => home?.nodes.get(node) ?? -Infinity;
  return allowedNodes(placement, sid).includes(target) && (home === undefined || rank(target) >= rank(here));
}

function criteria(nodes: readonly (readonly [number, number])[]): readonly number[] {
  const cpus = nodes.map(([cpu]) => cpu);
  const memories = nodes.map(([, memory]) => memory);
  const quadratic = (values: readonly number[]) =>
    Math.sqrt(values.reduce((sum, value) => sum + value ** 2, 0) / values.length);
  return [1 + quadratic(cpus), 1 + Math.max(...cpus), 1 + quadratic(memories), 1 + Math.max(...memories)];
}
