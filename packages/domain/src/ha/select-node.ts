// Where a service should be. Rules narrow the nodes down, its history and the load decide among what is left.
import type { CompiledRules } from "./compile-rules.ts";
import type { HaEnvironment } from "./environment.ts";
import type { ServiceConfig, ServiceStatus } from "./model.ts";
import { nodesUsedBy } from "./usage.ts";
import type { Usage } from "./usage.ts";

export interface Placement {
  readonly rules: CompiledRules;
  readonly usage: Usage;
  readonly online: readonly string[];
  /** Nodes that are to get nothing new; absent = none. */
  readonly closed?: ReadonlySet<string>;
  readonly services: Readonly<Record<string, ServiceStatus>>;
  readonly config: ReadonlyMap<string, ServiceConfig>;
}

/** Only nodes that have what the service needs. */
export function whereRoom(placement: Placement, env: Pick<HaEnvironment, "hasRoom">, sid: string): Placement {
  const { hasRoom } = env;
  return hasRoom === undefined
    ? placement
    : { ...placement, online: placement.online.filter((node) => hasRoom(sid, node)) };
}

/** Closed nodes are the last resort. What is there already is not new. */
function whereOpen(placement: Placement, inPlace: string | undefined): Placement {
  const { closed, online } = placement;
  if (closed === undefined || closed.size === 0) return placement;
  return { ...placement, online: online.filter((node) => !closed.has(node) || node === inPlace) };
}

/**
 * `stay`: only where it must move; `recover`: it is nowhere, any node is better than none; `best`: the best node whatever
 * it is on; `next`: one that has not failed yet.
 */
export type SelectMode = "stay" | "recover" | "best" | "next";

export function selectNode(
  everywhere: Placement,
  sid: string,
  service: ServiceStatus,
  config: ServiceConfig,
  mode: SelectMode,
): string | undefined {
  const tried = mode === "next" ? (service.failedNodes ?? []) : [];
  const isUntried = (node: string): boolean => !tried.includes(node);
  const inPlace = mode === "stay" || mode === "best" ? service.node : undefined;
  const open = whereOpen(everywhere, inPlace);
  const openNodes = allowedNodes(open, sid);
  const stays = inPlace !== undefined && openNodes.includes(inPlace);
  const hasOpen =
    stays || preferredNodes(open, sid, openNodes.filter(isUntried), mode === "recover").length > 0;
  const placement = hasOpen ? open : everywhere;
  const allowed = allowedNodes(placement, sid);
  const untried = allowed.filter(isUntried);
  const preferred = preferredNodes(placement, sid, untried, mode === "recover");
  if (preferred.length === 0) return undefined;

  // Without failback a service stays wherever it may be at all, also when a maintenance is over.
  if (mode === "stay" && !config.failback && allowed.includes(service.node)) return service.node;
  const home = service.maintenanceNode;
  if (home !== undefined && (preferred.includes(home) || allGoHome(placement, sid, home, untried)))
    return home;
  if (mode === "stay" && preferred.includes(service.node)) return service.node;

  const scores = placement.usage.scores(sid);
  const ranked = preferred.toSorted(
    (a, b) => (scores.get(a) ?? 0) - (scores.get(b) ?? 0) || (a < b ? -1 : 1),
  );
  return ranked[0];
}

/** Those that belong together left a node for its maintenance together: the first to go back leads the others. */
function allGoHome(placement: Placement, sid: string, home: string, allowed: readonly string[]): boolean {
  const top = topNodes(placement, sid, allowed, false);
  return (
    top.includes(home) &&
    [...(placement.rules.together.get(sid) ?? [])].every((mate) => {
      const service = placement.services[mate];
      const at = service === undefined ? undefined : nodesUsedBy(service).at(-1);
      const follows = service?.maintenanceNode === home && placement.config.get(mate)?.failback === true;
      return at === undefined || at === home || follows;
    })
  );
}

/** Online nodes on which the rules let it be at all. */
export function allowedNodes(placement: Placement, sid: string): readonly string[] {
  const home = placement.rules.nodeAffinity.get(sid);
  const enemies = placement.rules.apart.get(sid) ?? new Set();
  const taken = new Set(
    [...enemies].flatMap((other) => {
      const service = placement.services[other];
      return service === undefined ? [] : nodesUsedBy(service);
    }),
  );
  return placement.online.filter(
    (node) => !taken.has(node) && (home?.strict !== true || home.nodes.has(node)),
  );
}

/** Those of the highest priority, whoever it belongs with. */
function topNodes(
  placement: Placement,
  sid: string,
  allowed: readonly string[],
  anyPriority: boolean,
): readonly string[] {
  const home = placement.rules.nodeAffinity.get(sid);
  // Nodes a soft rule does not name are the last resort.
  const priority = (node: string) => (home === undefined ? 0 : (home.nodes.get(node) ?? -Infinity));
  const named = placement.online.filter((node) => home?.strict !== true || home.nodes.has(node));
  // A running service waits for its place rather than go to a worse one; one that is down takes what it can get.
  const highest = Math.max(...(anyPriority ? allowed : named).map(priority));
  return allowed.filter((node) => priority(node) === highest);
}

function preferredNodes(
  placement: Placement,
  sid: string,
  allowed: readonly string[],
  anyPriority: boolean,
): readonly string[] {
  const top = topNodes(placement, sid, allowed, anyPriority);
  const mates = new Map<string, number>();
  for (const other of placement.rules.together.get(sid) ?? []) {
    const service = placement.services[other];
    const node = service === undefined ? undefined : nodesUsedBy(service).at(-1);
    if (node !== undefined && top.includes(node)) mates.set(node, (mates.get(node) ?? 0) + 1);
  }
  if (mates.size === 0) return top;
  const most = Math.max(...mates.values());
  return [...mates.keys()]
    .filter((node) => mates.get(node) === most)
    .toSorted()
    .slice(0, 1);
}
