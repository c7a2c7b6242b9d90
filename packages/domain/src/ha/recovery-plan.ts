// What the manager would do about services whose nodes were lost: in its order, by its rules, with its idea of room. Nothing is
// changed but the environment's note of who was given to whom, by which it counts memory.
import { given } from "@gpve/contracts/given.ts";
import { rulesInForce } from "./compile-rules.ts";
import type { HaEnvironment } from "./environment.ts";
import type { ServiceConfig, ServiceStatus } from "./model.ts";
import { allowedNodes, selectNode, whereRoom, type Placement } from "./select-node.ts";
import { Usage } from "./usage.ts";

export interface PlannedRecovery {
  readonly sid: string;
  readonly from: string;
  /** undefined = nowhere. */
  readonly to?: string;
  /** HA would not even look for a node, for this reason. */
  readonly left?: string;
  /** What speaks against each node, where none can have it. */
  readonly refusals?: readonly { readonly node: string; readonly why: string }[];
}

export interface Loss {
  readonly lost: readonly string[];
  /** Nodes that are left and take part. */
  readonly online: readonly string[];
  readonly whyNoRoom: (sid: string, node: string) => string | undefined;
}

/** In the order in which they have their turn. */
export function planRecovery(
  env: HaEnvironment,
  { lost, online, whyNoRoom }: Loss,
): readonly PlannedRecovery[] {
  const config = env.services();
  const rules = rulesInForce(env, config);
  const closed = new Set(online.filter((node) => env.isClosed?.(node) === true));
  const { services: known, disarm } = env.managerStatus();
  const services: Record<string, ServiceStatus> = structuredClone(known);
  const order = (sid: string): number => env.recoveryOrder?.(sid) ?? 0;
  const there = [...config]
    .filter(([, { node }]) => lost.includes(node))
    .toSorted(([a], [b]) => order(a) - order(b) || (a < b ? -1 : 1));
  const leftOf = (sid: string, { state }: ServiceConfig): string | undefined => {
    if (disarm !== undefined) return "HA is disarmed: gpvectl ha arm";
    if (state !== "started") return `HA is told to have it ${state}`;
    return services[sid]?.state === "error" ? "HA has given it up: its state is error" : undefined;
  };
  const plan = there.map(([sid, wanted]) => ({ sid, wanted, left: leftOf(sid, wanted) }));
  for (const { sid, wanted, left } of plan)
    if (left === undefined) services[sid] = { state: "recovery", node: wanted.node, uid: "" };
  return plan.map(({ sid, wanted, left }): PlannedRecovery => {
    const from = wanted.node;
    const service = services[sid];
    if (left !== undefined || service === undefined) return { sid, from, ...given({ left }) };
    const usage = new Usage(env, online);
    for (const [each, status] of Object.entries(services)) usage.add(each, status);
    const placement: Placement = { rules, usage, online, closed, services, config };
    const to = selectNode(whereRoom(placement, env, sid), sid, service, wanted, "recover");
    if (to === undefined) return { sid, from, refusals: refusalsOf(placement, sid, whyNoRoom) };
    env.takeOver(sid, from, to);
    services[sid] = { ...service, state: "started", node: to };
    return { sid, from, to };
  });
}

function refusalsOf(
  placement: Placement,
  sid: string,
  whyNoRoom: Loss["whyNoRoom"],
): NonNullable<PlannedRecovery["refusals"]> {
  const allowed = allowedNodes(placement, sid);
  return placement.online.map((node) => ({
    node,
    why: (allowed.includes(node) ? whyNoRoom(sid, node) : undefined) ?? "its HA rules keep it from there",
  }));
}
