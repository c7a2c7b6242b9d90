// The end of a cluster: its guests and nothing else, each looked at once more before it goes.
import { AppError } from "@gpve/contracts/errors.ts";
import type { Cluster } from "../cluster/cluster.ts";
import type { Step } from "../plan/plan-steps.ts";
import { endOfBalancer } from "./decide/decide-balancer.ts";
import { removal } from "./decide/decide-templates.ts";
import type { World } from "./world.ts";

/** Refuses unless the file allows it and the name was typed. */
export function refuseDestroy(cluster: Cluster, typed: string): void {
  const { name } = cluster.metadata;
  if (cluster.protect.destroy) {
    throw new AppError("access.denied", `${name} is protected`, {
      data: {
        finding: "destroy-protected",
        next: "Set protect.destroy to false in its file, if you mean it.",
      },
    });
  }
  if (typed !== name) {
    throw new AppError("request.invalid", `"${typed}" is not the name of the cluster; nothing was changed`);
  }
}

/** Refuses while machines run that would be left and no longer be known. */
export function refuseHiddenEnd({ machines }: World): void {
  const hidden = [...machines.values()].filter(({ isHidden }) => isHidden === true).map(({ name }) => name);
  if (hidden.length === 0) return;
  const isOne = hidden.length === 1;
  const what = `${hidden.join(", ")} ${isOne ? "answers" : "answer"}, and no guest of ${isOne ? "it" : "them"} is shown`;
  throw new AppError("object.conflict", what, {
    data: { finding: "guest-hidden", next: "Nothing was deleted." },
  });
}

/** Workers first; etcd is not asked, it goes as a whole. */
export function destroySteps(world: World): readonly Step[] {
  const ordered = [...world.machines.values()].toSorted(
    (a, b) => Number(a.role === "controlplane") - Number(b.role === "controlplane"),
  );
  const machines = ordered.flatMap(({ name, guest }): readonly Step[] => {
    if (guest === undefined) return [];
    const of = { provider: guest.provider, subject: name, place: guest.place };
    return [
      ...(guest.isRunning ? [{ kind: "guest.stop", impact: "disruptive", ...of } as const] : []),
      { kind: "guest.delete", impact: "destructive", ...of },
    ];
  });
  const own = new Set(ordered.flatMap(({ guest }) => guest?.place.vmid ?? []));
  // Somebody else's clone may read from it.
  const templates = world.templates.filter(({ clones }) => clones.every((vmid) => own.has(vmid)));
  const balancer = world.balancer === undefined ? [] : endOfBalancer(world.balancer);
  return [...balancer, ...machines, ...templates.map(removal)];
}
