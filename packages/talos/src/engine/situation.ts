// What the parts of a decision share.
import type { Machine } from "../cluster/machine.ts";
import type { Finding } from "../preflight/finding-report.ts";
import type { Step } from "../plan/plan-steps.ts";
import type { Desired } from "./desired.ts";
import { configured, nodeOf, type SeenMachine, type World } from "./world.ts";

export interface Decision {
  /** May be done at once; steps of one machine in their order. */
  readonly steps: readonly Step[];
  /** Why nothing more can be done. */
  readonly findings: readonly Finding[];
}

export interface Situation {
  readonly desired: Desired;
  readonly world: World;
}

export interface Pair {
  readonly machine: Machine;
  readonly seen: SeenMachine;
}

/** undefined: nothing to say; the next one is asked. */
export type Rule = (situation: Situation) => Decision | undefined;

export const NOTHING: Decision = { steps: [], findings: [] };

export function doing(steps: readonly Step[]): Decision | undefined {
  return steps.length === 0 ? undefined : { steps, findings: [] };
}

export const stopping = (...findings: readonly Finding[]): Decision => ({ steps: [], findings });

/** The machine that is being replaced now. */
export const replaced = ({ desired }: Situation): string | undefined => desired.replacing[0];

/** The machine that is being wiped now: one without a configuration is as good as wiped. */
export function resetNow({ desired, world }: Situation): string | undefined {
  const [name] = desired.resetting;
  return configured(world.machines.get(name ?? "")) === undefined ? undefined : name;
}

/** The file's machines as they were seen, without one that is on its way out, and without those that could not be looked at. */
export function pairs(situation: Situation): readonly Pair[] {
  const { desired, world } = situation;
  return desired.machines.flatMap((machine) => {
    const seen = world.machines.get(machine.name);
    const isLeaving = [replaced(situation), resetNow(situation)].includes(machine.name);
    return seen === undefined || isLeaving || seen.guest?.unread !== undefined ? [] : [{ machine, seen }];
  });
}

/** A worker's pods are moved away before it goes; without Kubernetes there is nobody to move them. */
export function needsDrain({ desired, world }: Situation, seen: SeenMachine): boolean {
  const node = nodeOf(world, seen);
  if (node === undefined || policyOf(desired, seen.name) === "skip") return false;
  return !node.isCordoned || node.evictable > 0;
}

function policyOf({ cluster, machines }: Desired, name: string): string {
  const pool = machines.find((machine) => machine.name === name)?.pool;
  return cluster.pools.find((each) => each.name === pool)?.upgrade.drain.policy ?? "strict";
}
