// The load balancer's machine: there before anybody is to be reached through it, changed when all else is done, since for
// a moment nobody is.
import { balancerOf } from "../../cluster/balancer.ts";
import { balancerChanges, newBalancer } from "../../plan/balancer-config.ts";
import { isHot } from "../../plan/compare-guest.ts";
import type { BalancerStep } from "../../plan/plan-steps.ts";
import { doing, type Rule } from "../situation.ts";
import type { SeenGuest } from "../world.ts";

export const makeBalancer: Rule = ({ desired, world }) => {
  const wanted = balancerOf(desired.cluster, desired.machines);
  if (wanted === undefined) return undefined;
  const { name: subject, provider, host, vmid } = wanted;
  if (world.balancer === undefined) {
    const of = { subject, provider, place: { host, vmid } };
    const config = newBalancer(desired.cluster, wanted);
    return doing([
      { kind: "balancer.create", impact: "safe", ...of, config },
      { kind: "balancer.start", impact: "safe", ...of },
    ]);
  }
  const of = common(subject, world.balancer);
  const changes = balancerChanges(desired.cluster, wanted, world.balancer.config);
  if (world.balancer.isRunning)
    return doing(
      changes.length > 0 && isHot(changes)
        ? [{ kind: "balancer.change", impact: "safe", ...of, changes }]
        : [],
    );
  return doing([
    ...(changes.length === 0 ? [] : [{ kind: "balancer.change", impact: "safe", ...of, changes } as const]),
    { kind: "balancer.start", impact: "safe", ...of },
  ]);
};

/** It reads who is behind it when it starts. Stopped here, it is changed and started by the rule above. */
export const changeBalancer: Rule = ({ desired, world }) => {
  const wanted = balancerOf(desired.cluster, desired.machines);
  if (wanted === undefined || world.balancer === undefined) return undefined;
  return balancerChanges(desired.cluster, wanted, world.balancer.config).length === 0
    ? undefined
    : doing([{ kind: "balancer.stop", impact: "disruptive", ...common(wanted.name, world.balancer) }]);
};

/** Nobody wants it any more. */
export const removeBalancer: Rule = ({ desired, world }) =>
  world.balancer === undefined || balancerOf(desired.cluster, desired.machines) !== undefined
    ? undefined
    : doing(endOfBalancer(world.balancer));

export function endOfBalancer(guest: SeenGuest): readonly BalancerStep[] {
  const of = common(guest.config["name"] ?? "", guest);
  return [
    ...(guest.isRunning ? [{ kind: "balancer.stop", impact: "disruptive", ...of } as const] : []),
    { kind: "balancer.delete", impact: "destructive", ...of },
  ];
}

const common = (subject: string, { provider, place }: SeenGuest) => ({ subject, provider, place });
