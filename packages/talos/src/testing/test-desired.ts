// What is wanted and what is seen, for tests of what is decided.
import type { Cluster } from "../cluster/cluster.ts";
import type { Machine } from "../cluster/machine.ts";
import { machinesOf } from "../cluster/machines.ts";
import type { Desired } from "../engine/desired.ts";
import { makeTrace } from "../engine/make-trace.ts";
import type { World } from "../engine/world.ts";
import { testCluster } from "./test-cluster.ts";

export function testDesired(cluster: Cluster = testCluster(), more: Partial<Desired> = {}): Desired {
  const version = cluster.versions.kubernetes.replace(/^v/, "");
  return {
    cluster,
    machines: machinesOf(cluster),
    config: ({ role, name }: Machine) => ({
      rest: `config of ${name}`,
      kubelet: version,
      components: role === "controlplane" ? version : undefined,
    }),
    beginning: undefined,
    replacing: [],
    resetting: [],
    addons: [],
    acceptsDowntime: false,
    only: undefined,
    snapshotMaxAgeMs: 900_000,
    ...more,
  };
}

/** Nothing is there. */
export function emptyWorld({ machines }: Pick<Desired, "machines">, now = 0): World {
  return {
    now,
    images: new Map(),
    // One image for all: tests count steps.
    sharingImages: new Set(["pve"]),
    templates: [],
    vmids: new Map(),
    sharingDisks: new Set(["pve"]),
    machines: new Map(
      machines.map(({ name, hostname, role }) => [
        name,
        { name, hostname, role, guest: undefined, talos: { state: "off" } },
      ]),
    ),
    kubernetes: undefined,
    snapshotAt: undefined,
  };
}

/** As a first apply leaves it. */
export function madeWorld(desired: Desired): World {
  return makeTrace(desired, emptyWorld(desired)).world;
}
