// Where a cluster is no longer what its file says, machine by machine. `apply` mends what is listed.
import { balancerOf } from "../cluster/balancer.ts";
import { balancerChanges } from "../plan/balancer-config.ts";
import { guestChanges } from "../plan/guest-changes.ts";
import { type Desired, wantedTalos } from "../engine/desired.ts";
import { etcdHealth } from "../engine/quorum.ts";
import { schematicChange } from "../engine/outdated.ts";
import {
  type Configured,
  configured,
  controlPlanes,
  nodeOf,
  type SeenMachine,
  type World,
} from "../engine/world.ts";
import type { Machine } from "../cluster/machine.ts";

export const driftKinds = [
  "missing",
  "unwanted",
  "stopped",
  "settings",
  "unconfigured",
  "silent",
  "foreign",
  "configuration",
  "talos",
  "image",
  "kubernetes",
  "node",
  "etcd",
] as const;

export interface Drift {
  readonly machine: string;
  readonly kind: (typeof driftKinds)[number];
  /** Never with secrets. */
  readonly detail: string;
}

const GONE = "its guest is gone, and etcd or Kubernetes still knows it";

export function driftOf(desired: Desired, world: World): readonly Drift[] {
  const wanted = new Set(desired.machines.map(({ name }) => name));
  return [
    ...desired.machines.flatMap((machine) => ofMachine(desired, world, machine)),
    ...[...world.machines.values()]
      .filter(({ name }) => !wanted.has(name))
      .map(({ name, guest }): Drift => {
        const place = guest === undefined ? GONE : `VMID ${guest.place.vmid} on ${guest.place.host}`;
        return { machine: name, kind: "unwanted", detail: place };
      }),
    ...ofBalancer(desired, world),
    ...ofEtcd(world),
  ];
}

function ofBalancer({ cluster, machines }: Desired, { balancer }: World): readonly Drift[] {
  const wanted = balancerOf(cluster, machines);
  const of = (kind: Drift["kind"], detail: string): Drift => ({
    machine: `${cluster.metadata.name}-lb`,
    kind,
    detail,
  });
  if (wanted === undefined)
    return balancer === undefined ? [] : [of("unwanted", `VMID ${balancer.place.vmid}`)];
  if (balancer === undefined) return [of("missing", `no guest on ${wanted.host}`)];
  return [
    ...balancerChanges(cluster, wanted, balancer.config).map(({ key, from, to }) =>
      of("settings", `${key} is ${from ?? "(unset)"}, the file says ${to}`),
    ),
    ...(balancer.isRunning ? [] : [of("stopped", "its guest does not run")]),
  ];
}

function ofMachine(desired: Desired, world: World, machine: Machine): readonly Drift[] {
  const { name } = machine;
  const seen = world.machines.get(name);
  const guest = seen?.guest;
  if (seen === undefined || guest === undefined) {
    const isHidden = seen?.isHidden === true;
    const detail = isHidden ? "it answers, and no guest of it is shown" : `no guest on ${machine.host}`;
    return [{ machine: name, kind: "missing", detail }];
  }
  if (guest.unread !== undefined) {
    return [{ machine: name, kind: "silent", detail: `its guest cannot be looked at: ${guest.unread}` }];
  }
  const changes = guestChanges(desired.cluster, machine, guest.config);
  return [
    ...changes.map(({ key, from, to }): Drift => ({
      machine: name,
      kind: "settings",
      detail: `${key} is ${from ?? "(unset)"}, the file says ${to}`,
    })),
    ...inside(desired, world, machine, seen),
  ];
}

function inside(desired: Desired, world: World, machine: Machine, seen: SeenMachine): readonly Drift[] {
  const { name } = machine;
  const { talos } = seen;
  const of = (kind: Drift["kind"], detail: string): Drift => ({ machine: name, kind, detail });
  switch (talos.state) {
    case "off":
      return [of("stopped", "its guest does not run")];
    case "silent":
      return [of("silent", talos.reason)];
    case "foreign":
      return [of("foreign", talos.reason)];
    case "maintenance":
      return [of("unconfigured", "it waits for a configuration")];
    case "configured":
      return [
        ...(talos.version === wantedTalos(desired)
          ? []
          : [of("talos", `runs ${talos.version}, the file says ${wantedTalos(desired)}`)]),
        ...image(desired, machine, talos).map((detail) => of("image", detail)),
        ...(talos.change?.differences ?? []).map((difference) => of("configuration", difference)),
        ...kubernetes(desired, seen).map((detail) => of("kubernetes", detail)),
        ...node(world, seen).map((detail) => of("node", detail)),
      ];
  }
}

function image(desired: Desired, machine: Machine, talos: Configured): readonly string[] {
  const change = schematicChange(desired, machine, talos);
  if (change === undefined) return [];
  const { from, to } = change;
  return [
    `extensions or kernel arguments are those of ${from.slice(0, 12)}, the file's of ${to.slice(0, 12)}`,
  ];
}

function kubernetes({ cluster }: Desired, seen: SeenMachine): readonly string[] {
  const wanted = cluster.versions.kubernetes.replace(/^v/, "");
  const { kubelet, components } = configured(seen)?.config ?? {};
  return [
    ...(kubelet === undefined || kubelet === wanted
      ? []
      : [`its kubelet is ${kubelet}, the file says ${wanted}`]),
    ...(components === undefined || components === wanted
      ? []
      : [`its API server is ${components}, the file says ${wanted}`]),
  ];
}

function node(world: World, seen: SeenMachine): readonly string[] {
  if (world.kubernetes === undefined) return [];
  const found = nodeOf(world, seen);
  if (found === undefined) return ["it is no node of the cluster"];
  return [
    ...(found.isReady ? [] : ["its node is not ready"]),
    ...(found.isCordoned ? ["its node takes no pods"] : []),
  ];
}

/** Members whose machine nobody knows, and problems that they tell. */
function ofEtcd(world: World): readonly Drift[] {
  const health = etcdHealth(world);
  if (health === undefined) return [];
  const known = new Set(controlPlanes(world).map(({ hostname }) => hostname));
  return [
    ...health.members.flatMap(({ id, hostname }): readonly Drift[] =>
      known.has(hostname)
        ? []
        : [{ machine: hostname, kind: "etcd", detail: `member ${id} is no machine of ours` }],
    ),
    ...health.problems.map((detail): Drift => ({ machine: "etcd", kind: "etcd", detail })),
  ];
}
