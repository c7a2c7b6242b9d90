// Machines that have to be away for a while, whatever for. Each is drained once and comes back when nothing is left that
// it has to be away for. A canary of each pool goes first, then control planes one by one with etcd's leader last, then
// the other workers, as many at once as their pool allows.
import { error } from "../../preflight/finding-report.ts";
import { awayIn, disruption } from "./decide-disruption.ts";
import { disruptiveStep, needsTalos } from "./machine-needs.ts";
import { wantedTalos } from "../desired.ts";
import { etcdHealth } from "../quorum.ts";
import { type Decision, type Pair, pairs, type Rule, type Situation, stopping } from "../situation.ts";
import { configured, nodeOf } from "../world.ts";
import { refusesUpgrade } from "../versions.ts";

export const roll: Rule = (situation) => {
  const waiting = pairs(situation).filter((pair) => disruptiveStep(situation, pair) !== undefined);
  if (waiting.length === 0) return undefined;
  const to = wantedTalos(situation.desired);
  for (const { machine, seen } of waiting.filter((pair) => needsTalos(situation, pair))) {
    const reason = refusesUpgrade(configured(seen)?.version ?? to, to);
    if (reason !== undefined) return stopping(error("talos-step", machine.name, reason));
  }
  // Whose pods are elsewhere already is not left that way for the sake of another.
  const begun = waiting.filter(({ seen }) => nodeOf(situation.world, seen)?.isOurCordon === true);
  const canary = begun.length > 0 ? undefined : waiting.find(isCanary);
  if (canary !== undefined) return wave(situation, [canary]);
  const leader = etcdHealth(situation.world)?.leader;
  const list = begun.length > 0 ? begun : waiting;
  const planes = list.filter(({ machine }) => machine.role === "controlplane");
  const plane = planes.find(({ machine }) => machine.name !== leader) ?? planes[0];
  if (plane !== undefined) return taken(situation, plane);
  return together([...Map.groupBy(list, poolOf).values()].map((own) => wave(situation, own)));
};

/** `own`: workers of one pool. Those that are already away count. */
function wave(situation: Situation, own: readonly Pair[]): Decision {
  const { desired, world } = situation;
  const pool = own.map(poolOf)[0] ?? "";
  const room = desired.cluster.pools.find(({ name }) => name === pool)?.upgrade.maxUnavailable ?? 1;
  const members = desired.machines.filter((machine) => machine.pool === pool).map(({ name }) => name);
  const away = new Set(awayIn(world, members));
  const isAway = ({ machine }: Pair): boolean => away.has(machine.name);
  const begun = own.filter(isAway).slice(0, room);
  const fresh = own.filter((pair) => !isAway(pair)).slice(0, Math.max(0, room - away.size));
  if (begun.length + fresh.length === 0) {
    const evidence = `${[...away].join(", ")} cannot take pods, and ${room} of the pool may be away`;
    return stopping(error("nodes-away", pool, evidence));
  }
  return together([...begun, ...fresh].map((pair) => taken(situation, pair)));
}

function taken(situation: Situation, pair: Pair): Decision {
  const step = disruptiveStep(situation, pair);
  return disruption(situation, pair.seen, step === undefined ? [] : [step]);
}

const together = (parts: readonly Decision[]): Decision => ({
  steps: parts.flatMap(({ steps }) => steps),
  findings: parts.flatMap(({ findings }) => findings),
});

const poolOf = ({ machine }: Pair): string => machine.pool;

const isCanary = ({ machine }: Pair): boolean => machine.role === "worker" && machine.number === 1;
