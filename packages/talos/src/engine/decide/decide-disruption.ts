// The one way to whatever takes a machine away for a while: pods are moved, etcd was asked, a snapshot is fresh.
import { error } from "../../preflight/finding-report.ts";
import type { Step } from "../../plan/plan-steps.ts";
import { etcdHealth, refusesDisruption } from "../quorum.ts";
import { type Decision, needsDrain, type Situation, stopping } from "../situation.ts";
import { configured, nodeOf, type SeenMachine, type World } from "../world.ts";

/** The next step on the way to `steps`. */
export function disruption(situation: Situation, seen: SeenMachine, steps: readonly Step[]): Decision {
  const { world, desired } = situation;
  if (seen.role === "controlplane") {
    const snapshot = snapshotFirst(situation);
    if (snapshot !== undefined) return snapshot;
    const reason = refusesDisruption(world, desired.acceptsDowntime);
    if (reason !== undefined) return stopping(error("quorum-at-risk", seen.name, reason));
  }
  if (needsDrain(situation, seen)) {
    return { steps: [{ kind: "node.drain", impact: "disruptive", subject: seen.name }], findings: [] };
  }
  return { steps, findings: [] };
}

/** Of a healthy member, before anything that could cost one. */
export function snapshotFirst({ world, desired }: Situation): Decision | undefined {
  const { snapshotAt } = world;
  if (snapshotAt !== undefined && world.now - snapshotAt <= desired.snapshotMaxAgeMs) return undefined;
  const asked = healthyControlPlane(world);
  if (asked === undefined) {
    return stopping(error("quorum-at-risk", "etcd", "no healthy member could be asked for a snapshot"));
  }
  return { steps: [{ kind: "etcd.snapshot", impact: "safe", subject: asked }], findings: [] };
}

/** A machine whose etcd is well; not `except`. */
export function healthyControlPlane(world: World, except?: string): string | undefined {
  const health = etcdHealth(world);
  return [...world.machines.values()].find((machine) => {
    const id = configured(machine)?.etcd?.id;
    return machine.name !== except && id !== undefined && health?.healthy.has(id) === true;
  })?.name;
}

/** Nodes of a pool that are away or about to go. */
export function awayIn(world: World, names: readonly string[]): readonly string[] {
  return names.filter((name) => {
    const seen = world.machines.get(name);
    const node = seen === undefined ? undefined : nodeOf(world, seen);
    const isUp = configured(seen)?.isReady === true;
    return !isUp || node?.isCordoned === true || node?.isReady === false;
  });
}
