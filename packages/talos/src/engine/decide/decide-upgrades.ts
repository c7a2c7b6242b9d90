// What machines that run take without being away for it, authorities and versions of Kubernetes.
import type { Step } from "../../plan/plan-steps.ts";
import { error } from "../../preflight/finding-report.ts";
import { disruption, snapshotFirst } from "./decide-disruption.ts";
import { disruptiveStep, needsConfig, needsReboot, needsTalos, reconfigureStep } from "./machine-needs.ts";
import { wantedKubernetes } from "../desired.ts";
import { etcdHealth } from "../quorum.ts";
import { type Decision, doing, type Pair, pairs, type Rule, type Situation, stopping } from "../situation.ts";
import { configured, nodeOf } from "../world.ts";
import { refusesUpgrade } from "../versions.ts";

/** What we cordoned for work that is done. */
export const uncordon: Rule = (situation) => {
  const drained = pairs(situation).filter(({ seen }) => nodeOf(situation.world, seen)?.isOurCordon === true);
  if (drained.length === 0) return undefined;
  const rotated = nextToRotate(situation)?.machine.name;
  return doing(
    drained
      .filter((pair) => disruptiveStep(situation, pair) === undefined && pair.machine.name !== rotated)
      .map(({ machine }) => ({ kind: "node.uncordon", impact: "safe", subject: machine.name })),
  );
};

/** What machines take without a reboot, all at once; after new versions of Talos, as it may be for those alone. */
export const reconfigure: Rule = (situation) => {
  const all = pairs(situation);
  if (situation.desired.rotation !== undefined || all.some((pair) => needsTalos(situation, pair)))
    return undefined;
  const isLight = (pair: Pair): boolean => needsConfig(situation, pair) && !needsReboot(situation, pair);
  return doing(all.filter(isLight).map(reconfigureStep));
};

/** Authorities are changed while etcd is well. */
export const rotate: Rule = (situation) => {
  const next = nextToRotate(situation);
  if (next === undefined) return undefined;
  return needsReboot(situation, next)
    ? disruption(situation, next.seen, [reconfigureStep(next)])
    : guarded(situation, next, reconfigureStep(next));
};

/** One machine at a time, workers after control planes. */
function nextToRotate(situation: Situation): Pair | undefined {
  if (situation.desired.rotation === undefined) return undefined;
  const leader = etcdHealth(situation.world)?.leader;
  const rank = ({ machine }: Pair): number =>
    machine.role === "worker" ? 2 : machine.name === leader ? 1 : 0;
  return pairs(situation)
    .filter((pair) => needsConfig(situation, pair))
    .toSorted((a, b) => rank(a) - rank(b))[0];
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

/** An API server that starts anew needs no empty machine, but an etcd that is well, and a way back. */
function guarded(situation: Situation, { seen }: Pair, step: Step): Decision {
  const health = etcdHealth(situation.world);
  if (health !== undefined && health.problems.length > 0) {
    return stopping(error("etcd-unhealthy", seen.name, health.problems.join("; ")));
  }
  return snapshotFirst(situation) ?? { steps: [step], findings: [] };
}
