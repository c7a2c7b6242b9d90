// Whether etcd can spare one of its members. Talos itself does not look before an upgrade from 1.13 on, so this is the
// only guard there is: it is asked right before every step that could cost a member.
import { configured, controlPlanes, type SeenMember, type World } from "./world.ts";

export interface EtcdHealth {
  readonly members: readonly SeenMember[];
  /** Ids of members that vote and are well. */
  readonly healthy: ReadonlySet<string>;
  /** How many members were asked and told the same. */
  readonly views: number;
  readonly problems: readonly string[];
  readonly leader: string | undefined;
}

const majority = (members: number): number => Math.floor(members / 2) + 1;

/** undefined: no control plane knows of an etcd. */
export function etcdHealth(world: World): EtcdHealth | undefined {
  const seen = controlPlanes(world).flatMap((machine) => {
    const talos = configured(machine);
    return talos?.etcd === undefined ? [] : [{ name: machine.name, isReady: talos.isReady, ...talos.etcd }];
  });
  const [first] = seen;
  if (first === undefined) return undefined;
  const listed = (members: readonly SeenMember[]): string =>
    members
      .map(({ id, isLearner }) => `${id}${isLearner ? "?" : ""}`)
      .toSorted()
      .join(" ");
  const same = seen.filter(({ members }) => listed(members) === listed(first.members));
  const healthy = new Set(
    seen
      .filter(({ id, isReady, problems }) => {
        const member = first.members.find((each) => each.id === id);
        return isReady && problems.length === 0 && member?.isLearner === false;
      })
      .map(({ id }) => id),
  );
  return {
    members: first.members,
    healthy,
    views: same.length,
    leader: seen.find(({ isLeader }) => isLeader)?.name,
    problems: [
      ...(same.length === seen.length ? [] : ["members do not agree on who is a member"]),
      ...seen.flatMap(({ name, problems }) => problems.map((problem) => `${name}: ${problem}`)),
      ...first.members
        .filter(({ id }) => !healthy.has(id))
        .map(({ hostname, isLearner }) => `${hostname} is ${isLearner ? "still a learner" : "not healthy"}`),
    ],
  };
}

/** Why a member may not go away for a while; undefined: it may. */
export function refusesDisruption(world: World, acceptsDowntime: boolean): string | undefined {
  const health = etcdHealth(world);
  if (health === undefined) return "etcd does not run, or no control plane answers";
  if (health.problems.length > 0) return health.problems.join("; ");
  const total = health.members.length;
  if (total === 1) {
    return acceptsDowntime ? undefined : "there is a single control plane: its API is away meanwhile";
  }
  if (health.views < 2) return "only one control plane could be asked";
  return total - 1 >= majority(total)
    ? undefined
    : `${total} members need ${majority(total)}: none of them can be spared`;
}

/** Why a member may not be taken out for good; undefined: it may. The member itself may be dead. */
export function refusesRemoval(world: World, id: string): string | undefined {
  const health = etcdHealth(world);
  if (health === undefined) return "etcd does not run, or no control plane answers";
  const others = health.members.filter((member) => member.id !== id);
  if (others.length === 0) return "it is the last member";
  const sick = others.filter((member) => !health.healthy.has(member.id));
  if (sick.length > 0) return `${sick.map(({ hostname }) => hostname).join(", ")} is not healthy`;
  // The removal itself must be agreed on by a majority of those who are members now.
  const voters = health.healthy.size;
  return voters >= majority(health.members.length)
    ? undefined
    : `${voters} of ${health.members.length} members are healthy: etcd has lost its quorum`;
}
