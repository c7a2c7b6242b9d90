// Versions and configurations of machines that run. A canary of each pool goes first, then control planes one by one
// with etcd's leader last, then the other workers, as many at once as their pool allows.
import { given } from "@gpve/contracts/given.ts";
import type { Machine } from "../../cluster/machine.ts";
import type { SchematicChange, Step } from "../../plan/plan-steps.ts";
import { error } from "../../preflight/finding-report.ts";
import { awayIn, disruption } from "./decide-disruption.ts";
import { waitsForStop } from "./decide-guests.ts";
import { wantedKubernetes, wantedTalos } from "../desired.ts";
import { isOutdated, schematicChange } from "../outdated.ts";
import { etcdHealth } from "../quorum.ts";
import { type Decision, doing, type Pair, pairs, type Rule, type Situation, stopping } from "../situation.ts";
import { configured, nodeOf } from "../world.ts";
import { refusesUpgrade } from "../versions.ts";

/** What we cordoned for work that is done. */
export const uncordon: Rule = (situation) =>
  doing(
    pairs(situation).flatMap(({ machine, seen }): readonly Step[] => {
      const node = nodeOf(situation.world, seen);
      const isDone = !needsTalos(situation, { machine, seen }) && !needsReboot(situation, { machine, seen });
      return node?.isOurCordon === true && isDone && !waitsForStop(situation, machine, seen.guest)
        ? [{ kind: "node.uncordon", impact: "safe", subject: machine.name }]
        : [];
    }),
  );

export const upgradeTalos: Rule = (situation) => {
  const outdated = pairs(situation).filter((pair) => needsTalos(situation, pair));
  if (outdated.length === 0) return undefined;
  const to = wantedTalos(situation.desired);
  for (const { machine, seen } of outdated) {
    const reason = refusesUpgrade(configured(seen)?.version ?? to, to);
    if (reason !== undefined) return stopping(error("talos-step", machine.name, reason));
  }
  return rolling(situation, outdated, ({ machine, seen }) => [
    {
      kind: "talos.upgrade",
      impact: "disruptive",
      subject: machine.name,
      from: configured(seen)?.version ?? "",
      to,
      ...given({ schematic: changeOfImage(situation, { machine, seen }) }),
    },
  ]);
};

/** Those that a machine takes without a reboot at once; the others as upgrades. */
export const reconfigure: Rule = (situation) => {
  const changed = pairs(situation).filter((pair) => needsConfig(situation, pair));
  const step = ({ machine, seen }: Pair): Step => {
    const change = configured(seen)?.change;
    return {
      kind: "talos.reconfigure",
      impact: change?.needsReboot === true ? "disruptive" : "safe",
      subject: machine.name,
      differences: change?.differences ?? [],
    };
  };
  if (situation.desired.rotation !== undefined) {
    return changed.length === 0 ? undefined : oneByOne(situation, changed, step);
  }
  const light = changed.filter((pair) => !needsReboot(situation, pair));
  if (light.length > 0) return doing(light.map(step));
  return changed.length === 0 ? undefined : rolling(situation, changed, (pair) => [step(pair)]);
};

/** Authorities are changed on one machine at a time, workers after control planes, and only while etcd is well. */
function oneByOne(situation: Situation, changed: readonly Pair[], step: (pair: Pair) => Step): Decision {
  const leader = etcdHealth(situation.world)?.leader;
  const rank = ({ machine }: Pair): number =>
    machine.role === "worker" ? 2 : machine.name === leader ? 1 : 0;
  const [next] = changed.toSorted((a, b) => rank(a) - rank(b));
  if (next === undefined) return { steps: [], findings: [] };
  return needsReboot(situation, next)
    ? disruption(situation, next.seen, [step(next)])
    : guarded(situation, next, step(next));
}

/** On to the next phase of a rotation when every machine there is has what this one is about. */
export const recordRotated: Rule = ({ desired, world }) => {
  const { rotation } = desired;
  if (rotation === undefined) return undefined;
  const behind = [...world.machines.values()].filter((seen) => {
    const machine = desired.machines.find(({ name }) => name === seen.name);
    const wanted = machine === undefined ? undefined : desired.config(machine).rest;
    return wanted === undefined ? seen.guest !== undefined : configured(seen)?.config.rest !== wanted;
  });
  return behind.length === 0
    ? doing([{ kind: "record.rotated", impact: "safe", subject: rotation.phase }])
    : stopping(...behind.map(({ name, talos }) => error("rotation-waits", name, `it is ${talos.state}`)));
};

/** The API servers before any kubelet; a kubelet must never be newer. */
export const upgradeKubernetes: Rule = (situation) => {
  const to = wantedKubernetes(situation.desired);
  const versions = pairs(situation).flatMap((pair) => {
    const config = configured(pair.seen)?.config;
    return config === undefined ? [] : [{ pair, config }];
  });
  const old = versions.filter(({ config }) => config.components !== undefined && config.components !== to);
  const kubelets = versions.filter(({ config }) => config.kubelet !== to);
  for (const { pair, config } of [...old, ...kubelets]) {
    const from = config.components ?? config.kubelet ?? to;
    const reason = refusesUpgrade(from, to);
    if (reason !== undefined) return stopping(error("kubernetes-step", pair.machine.name, reason));
  }
  const [plane] = old;
  if (plane !== undefined) {
    const { machine, seen } = plane.pair;
    const step: Step = {
      kind: "kubernetes.components",
      impact: "disruptive",
      subject: machine.name,
      from: plane.config.components ?? "",
      to,
    };
    return guarded(situation, { machine, seen }, step);
  }
  const [next] = kubelets;
  if (next === undefined) return undefined;
  return doing([
    {
      kind: "kubernetes.kubelet",
      impact: "disruptive",
      subject: next.pair.machine.name,
      from: next.config.kubelet ?? "",
      to,
    },
  ]);
};

/** An API server that starts anew needs no empty machine, but an etcd that is well. */
function guarded(situation: Situation, { seen }: Pair, step: Step): Decision {
  const health = etcdHealth(situation.world);
  if (health !== undefined && health.problems.length > 0) {
    return stopping(error("etcd-unhealthy", seen.name, health.problems.join("; ")));
  }
  return { steps: [step], findings: [] };
}

function rolling(
  situation: Situation,
  outdated: readonly Pair[],
  steps: (pair: Pair) => readonly Step[],
): Decision {
  const canary = outdated.find((pair) => isCanary(pair.machine));
  if (canary !== undefined) return disruption(situation, canary.seen, steps(canary));
  const leader = etcdHealth(situation.world)?.leader;
  const planes = outdated.filter(({ machine }) => machine.role === "controlplane");
  const plane = planes.find(({ machine }) => machine.name !== leader) ?? planes[0];
  if (plane !== undefined) return disruption(situation, plane.seen, steps(plane));
  const parts = poolsOf(outdated).map((pool) => wave(situation, pool, outdated, steps));
  return {
    steps: parts.flatMap((part) => part.steps),
    findings: parts.flatMap((part) => part.findings),
  };
}

/** Of one pool: those that are already away count. */
function wave(
  situation: Situation,
  pool: string,
  outdated: readonly Pair[],
  steps: (pair: Pair) => readonly Step[],
): Decision {
  const { desired, world } = situation;
  const room = desired.cluster.pools.find(({ name }) => name === pool)?.upgrade.maxUnavailable ?? 1;
  const members = desired.machines.filter((machine) => machine.pool === pool).map(({ name }) => name);
  const away = new Set(awayIn(world, members));
  const own = outdated.filter(({ machine }) => machine.pool === pool);
  const begun = own.filter(({ machine }) => away.has(machine.name));
  const fresh = own.filter(({ machine }) => !away.has(machine.name)).slice(0, Math.max(0, room - away.size));
  if (begun.length + fresh.length === 0) {
    const evidence = `${[...away].join(", ")} cannot take pods, and ${room} of the pool may be away`;
    return stopping(error("nodes-away", pool, evidence));
  }
  const parts = [...begun, ...fresh].map((pair) => disruption(situation, pair.seen, steps(pair)));
  return {
    steps: parts.flatMap((part) => part.steps),
    findings: parts.flatMap((part) => part.findings),
  };
}

const poolsOf = (list: readonly Pair[]): readonly string[] => [
  ...new Set(list.map(({ machine }) => machine.pool)),
];

const isCanary = (machine: Machine): boolean => machine.role === "worker" && machine.number === 1;

function needsTalos({ desired }: Situation, { machine, seen }: Pair): boolean {
  const talos = configured(seen);
  return talos !== undefined && isOutdated(desired, machine, talos);
}

function changeOfImage({ desired }: Situation, { machine, seen }: Pair): SchematicChange | undefined {
  const talos = configured(seen);
  return talos === undefined ? undefined : schematicChange(desired, machine, talos);
}

function needsConfig({ desired }: Situation, { machine, seen }: Pair): boolean {
  const talos = configured(seen);
  return talos !== undefined && talos.config.rest !== desired.config(machine).rest;
}

function needsReboot(situation: Situation, pair: Pair): boolean {
  return needsConfig(situation, pair) && configured(pair.seen)?.change?.needsReboot === true;
}
