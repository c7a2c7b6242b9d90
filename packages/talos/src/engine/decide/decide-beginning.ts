// From guests that run to a cluster: each machine gets its configuration, etcd is begun once, everybody joins.
import { given } from "@gpve/contracts/given.ts";
import { error } from "../../preflight/finding-report.ts";
import type { Step } from "../../plan/plan-steps.ts";
import { snapshotFirst } from "./decide-disruption.ts";
import { etcdHealth, refusesRemoval } from "../quorum.ts";
import { doing, pairs, type Rule, type Situation, stopping } from "../situation.ts";
import { configured, controlPlanes, nodeOf, type SeenMachine } from "../world.ts";

export const refuseForeign: Rule = ({ world }) => {
  const found = [...world.machines.values()].flatMap(({ name, talos }) =>
    talos.state === "foreign" ? [error("machine-foreign", name, talos.reason)] : [],
  );
  return found.length === 0 ? undefined : stopping(...found);
};

/** Whoever answers is there, whatever the platform shows: it is not made anew, and costs no member and no node. */
export const refuseHidden: Rule = ({ world }) => {
  const found = [...world.machines.values()].flatMap(({ name, guest, isHidden }) =>
    guest === undefined && isHidden === true
      ? [error("guest-hidden", name, "it answers, and no guest with its tag and identity is shown")]
      : [],
  );
  return found.length === 0 ? undefined : stopping(...found);
};

/** Last of all: what could be done for the others was. */
export const tellUnread: Rule = ({ world }) => {
  const found = [...world.machines.values()].flatMap(({ name, guest }) =>
    guest?.unread === undefined
      ? []
      : [error("guest-unread", name, `on ${guest.place.host}: ${guest.unread}`)],
  );
  return found.length === 0 ? undefined : stopping(...found);
};

/** A member whose machine is provably no more: no guest and nobody at its address, or one without any data. */
export const removeStale: Rule = (situation) => {
  const { world } = situation;
  const health = etcdHealth(world);
  const stale = health?.members.find((member) => {
    const owner = controlPlanes(world).find(({ hostname }) => hostname === member.hostname);
    return owner !== undefined && (owner.guest === undefined || owner.talos.state === "maintenance");
  });
  if (stale === undefined) return undefined;
  const reason = refusesRemoval(world, stale.id);
  if (reason !== undefined) return stopping(error("quorum-lost", stale.hostname, reason));
  return (
    snapshotFirst(situation) ??
    doing([{ kind: "etcd.remove", impact: "disruptive", subject: stale.hostname, member: stale.id }])
  );
};

export const reach: Rule = (situation) =>
  doing(
    pairs(situation).flatMap(({ machine, seen }): readonly Step[] =>
      seen.talos.state === "silent" ? [{ kind: "talos.reach", impact: "safe", subject: machine.name }] : [],
    ),
  );

/** Before etcd runs all at once; later control planes join one by one, and only an etcd that is well. */
export const configure: Rule = (situation) => {
  const waiting = pairs(situation).filter(({ seen }) => seen.talos.state === "maintenance");
  const health = etcdHealth(situation.world);
  const workers = waiting.filter(({ machine }) => machine.role === "worker");
  const planes = waiting.filter(({ machine }) => machine.role === "controlplane");
  const step = ({ machine }: (typeof waiting)[number]): Step => ({
    kind: "talos.configure",
    impact: "safe",
    subject: machine.name,
  });
  if (health === undefined) {
    // An etcd that is there and does not answer may still count the machine that lost its data: it is not made to join.
    const isBegun = typeof situation.desired.beginning?.doneAt === "string";
    const isSomewhere = controlPlanes(situation.world).some((seen) => mayHaveData(seen).length > 0);
    return doing((isBegun && isSomewhere ? workers : waiting).map(step));
  }
  if (planes.length > 0 && health.problems.length > 0) {
    // Members that are on their way are waited for by `join`.
    return isJoining(situation)
      ? undefined
      : stopping(error("etcd-unhealthy", "etcd", health.problems.join("; ")));
  }
  return doing([...workers, ...planes.slice(0, 1)].map(step));
};

/** Exactly once: never while any control plane could know more than we do. */
export const bootstrap: Rule = (situation) => {
  const { desired, world } = situation;
  if (etcdHealth(world) !== undefined) return undefined;
  const { beginning } = desired;
  if (beginning !== undefined && beginning.doneAt !== null) {
    if (beginning.machine === "") {
      const evidence = `adopted at ${beginning.doneAt} with machines that were configured, and none that is shown has it`;
      return stopping(error("bootstrap-unsure", "etcd", evidence));
    }
    return stopping(
      error("etcd-lost", "etcd", `begun on ${beginning.machine} at ${beginning.doneAt}, and nobody has it`),
    );
  }
  const unsure = controlPlanes(world).flatMap((seen) => mayHaveData(seen));
  if (unsure.length > 0) return stopping(error("bootstrap-unsure", "etcd", unsure.join("; ")));
  const planes = pairs(situation).filter(({ machine }) => machine.role === "controlplane");
  const first = planes.find(({ machine }) => machine.name === beginning?.machine) ?? planes[0];
  return first === undefined
    ? undefined
    : doing([{ kind: "etcd.bootstrap", impact: "safe", subject: first.machine.name }]);
};

/** Services of etcd that have nothing yet and wait to be begun, or joined. */
const EMPTY = ["Preparing", "Waiting", "Initialized", ""];

/** Why etcd's data may be on this machine though it does not say so. */
export function mayHaveData({ name, guest, talos }: SeenMachine): readonly string[] {
  if (guest === undefined || talos.state === "maintenance") return [];
  if (talos.state !== "configured") return [`${name} is ${talos.state}`];
  return EMPTY.includes(talos.etcdService) ? [] : [`etcd of ${name} is ${talos.etcdService}`];
}

/** One that left etcd and is still wanted joins again after its next boot; it has no member to lose. */
export const rejoin: Rule = (situation) =>
  etcdHealth(situation.world) === undefined
    ? undefined
    : doing(
        pairs(situation).flatMap(({ machine, seen }): readonly Step[] => {
          const talos = configured(seen);
          const hasLeft = talos?.etcd === undefined && talos?.etcdService === "Finished";
          return hasLeft ? [{ kind: "talos.reboot", impact: "disruptive", subject: machine.name }] : [];
        }),
      );

export const join: Rule = (situation) => doing(joining(situation));

function isJoining(situation: Situation): boolean {
  return joining(situation).length > 0;
}

function joining(situation: Situation): readonly Step[] {
  const health = etcdHealth(situation.world);
  if (health === undefined) return [];
  return pairs(situation).flatMap(({ machine, seen }): readonly Step[] => {
    const talos = configured(seen);
    if (machine.role !== "controlplane" || talos === undefined) return [];
    return talos.etcd !== undefined && health.healthy.has(talos.etcd.id)
      ? []
      : [{ kind: "etcd.join", impact: "safe", subject: machine.name }];
  });
}

/** Without etcd there is nobody to wait for. */
export const reachKubernetes: Rule = ({ desired, world }) =>
  world.kubernetes === undefined && etcdHealth(world) !== undefined
    ? doing([{ kind: "kubernetes.reach", impact: "safe", subject: desired.cluster.metadata.name }])
    : undefined;

/** Registered, and ready where there is a network for pods. One that was cordoned is still ready. */
export const nodesReady: Rule = (situation) => {
  if (situation.world.kubernetes === undefined) return undefined;
  const needsReady = situation.desired.cluster.addons.cni.type !== "none";
  return doing(
    pairs(situation).flatMap(({ machine, seen }): readonly Step[] => {
      const node = nodeOf(situation.world, seen);
      const isFine = node !== undefined && (node.isReady || !needsReady);
      return isFine ? [] : [{ kind: "node.ready", impact: "safe", subject: machine.name }];
    }),
  );
};

/** In order; each waits until the one before is well. */
export const addonsWhere =
  (isWanted: (name: string, isNetwork: boolean) => boolean): Rule =>
  ({ desired, world }) => {
    const next = desired.addons.find(({ name, digest, isNetwork }) => {
      const seen = world.kubernetes?.addons.get(name);
      return isWanted(name, isNetwork) && (seen?.digest !== digest || !seen.isHealthy);
    });
    return next === undefined
      ? undefined
      : doing([
          {
            kind: "addon.apply",
            impact: "safe",
            subject: next.name,
            ...given({ version: next.version, source: next.source, objects: next.objects }),
          },
        ]);
  };
