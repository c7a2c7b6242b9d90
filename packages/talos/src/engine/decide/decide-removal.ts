// Machines that go: emptied, out of etcd, off, out of Kubernetes, deleted. The guest goes last, so that whoever comes
// after a crash still finds the one it was about.
import type { Step } from "../../plan/plan-steps.ts";
import { error } from "../../preflight/finding-report.ts";
import { mayHaveData } from "./decide-beginning.ts";
import { healthyControlPlane, snapshotFirst } from "./decide-disruption.ts";
import { reconfigure, rotate } from "./decide-upgrades.ts";
import { roll } from "./decide-wave.ts";
import { etcdHealth, refusesRemoval } from "../quorum.ts";
import {
  type Decision,
  doing,
  needsDrain,
  replaced,
  resetNow,
  type Rule,
  type Situation,
  stopping,
} from "../situation.ts";
import { configured, nodeOf, type SeenMachine } from "../world.ts";

/** One at a time: workers first, then control planes. */
export const removeOne: Rule = (situation) => {
  const { desired, world } = situation;
  const name = replaced(situation);
  if (name !== undefined) {
    const seen = world.machines.get(name);
    return seen === undefined ? undefined : removal(situation, seen);
  }
  const wanted = new Set(desired.machines.map((machine) => machine.name));
  const left = [...world.machines.values()].filter(
    // One that cannot be looked at is told of, and waits.
    ({ name, guest }) => !wanted.has(name) && guest !== undefined && guest.unread === undefined,
  );
  const next = left.find(({ role }) => role === "worker") ?? left[0];
  if (next === undefined) return undefined;
  const workers = desired.machines.filter(({ role }) => role === "worker").length;
  const { minWorkers } = desired.cluster.protect;
  if (next.role === "worker" && workers < minWorkers) {
    return stopping(
      error("workers-protected", next.name, `${workers} would be left, protect.minWorkers is ${minWorkers}`),
    );
  }
  const isLastOfWorkers = next.role === "worker" && workers === 0;
  return (isLastOfWorkers ? configurePlanes(situation) : undefined) ?? removal(situation, next);
};

/** Where no worker is left, pods go to control planes: these must take them before any is moved. */
function configurePlanes({ desired, world }: Situation): Decision | undefined {
  const machines = desired.machines.filter(({ role }) => role === "controlplane");
  const planes = { desired: { ...desired, machines }, world };
  // A configuration may wait for another version of Talos, or take a reboot.
  return reconfigure(planes) ?? roll(planes) ?? rotate(planes);
}

/** Of machines that are gone and no longer wanted; one whose node is ready is not gone yet. */
export const removeGone: Rule = ({ desired, world }) => {
  const wanted = new Set(desired.machines.map((machine) => machine.name));
  return doing(
    [...world.machines.values()].flatMap((seen): readonly Step[] =>
      !wanted.has(seen.name) && seen.guest === undefined && nodeOf(world, seen)?.isReady === false
        ? [{ kind: "node.delete", impact: "disruptive", subject: seen.name }]
        : [],
    ),
  );
};

/** Emptied, out of etcd, wiped; then it is configured as a new one. */
export const resetOne: Rule = (situation) => {
  const name = resetNow(situation);
  const seen = situation.world.machines.get(name ?? "");
  if (name === undefined || seen === undefined) return undefined;
  if (needsDrain(situation, seen)) {
    return doing([{ kind: "node.drain", impact: "disruptive", subject: name }]);
  }
  const leaving = seen.role === "controlplane" ? leaveEtcd(situation, seen) : undefined;
  return leaving ?? doing([{ kind: "talos.reset", impact: "destructive", subject: name }]);
};

function removal(situation: Situation, seen: SeenMachine): Decision | undefined {
  const { world } = situation;
  const { guest, name } = seen;
  if (guest === undefined) return undefined;
  if (guest.unread !== undefined) {
    // It could run on, without its member and its node, with the address of the one that is made in its place.
    return stopping(error("guest-unread", name, `on ${guest.place.host}: ${guest.unread}`));
  }
  const of = { provider: guest.provider, subject: name, place: guest.place };
  // Who does not answer cannot be emptied; its pods come up elsewhere once its node is gone.
  const isAlive = configured(seen) !== undefined;
  if (isAlive && needsDrain(situation, seen))
    return doing([{ kind: "node.drain", impact: "disruptive", subject: name }]);
  if (seen.role === "controlplane") {
    const leaving = leaveEtcd(situation, seen);
    if (leaving !== undefined) return leaving;
  }
  const steps: Step[] = [];
  if (guest.isRunning) steps.push({ kind: "guest.stop", impact: "disruptive", ...of });
  if (nodeOf(world, seen) !== undefined)
    steps.push({ kind: "node.delete", impact: "disruptive", subject: name });
  steps.push({ kind: "guest.delete", impact: "destructive", ...of });
  return doing(steps);
}

function leaveEtcd(situation: Situation, seen: SeenMachine): Decision | undefined {
  const { world } = situation;
  const health = etcdHealth(world);
  const own = configured(seen)?.etcd;
  const member = health?.members.find(({ id, hostname }) => id === own?.id || hostname === seen.hostname);
  if (health === undefined) {
    // Nobody answers who could tell whether its data is still needed.
    const unsure = mayHaveData(seen);
    return unsure.length === 0 ? undefined : stopping(error("etcd-unhealthy", seen.name, unsure.join("; ")));
  }
  if (member === undefined) return undefined;
  const reason = refusesRemoval(world, member.id);
  if (reason !== undefined) return stopping(error("quorum-at-risk", seen.name, reason));
  if (healthyControlPlane(world, seen.name) === undefined) {
    return stopping(error("quorum-at-risk", seen.name, "no other member is healthy"));
  }
  const snapshot = snapshotFirst(situation);
  if (snapshot !== undefined) return snapshot;
  return doing([
    own === undefined
      ? { kind: "etcd.remove", impact: "disruptive", subject: seen.hostname, member: member.id }
      : { kind: "etcd.leave", impact: "disruptive", subject: seen.name },
  ]);
}
