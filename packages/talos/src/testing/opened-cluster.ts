// A cluster opened on a fake world: its lock lies in `folder`, and nothing else of it is kept.
import { join } from "node:path";
import type { Cluster } from "../cluster/cluster.ts";
import { machinesOf } from "../cluster/machines.ts";
import { type ClusterDeps, OpenCluster } from "../engine/open-cluster.ts";
import { readLock } from "../folder/lock-file.ts";
import type { FakeWorld } from "./fake-world.ts";
import { instantClock } from "./instant-clock.ts";

export type Stage = Pick<ClusterDeps, "secrets"> & {
  readonly folder: string;
  readonly cluster: Cluster;
} & Partial<ClusterDeps>;

export function openedCluster(
  world: FakeWorld,
  { folder, cluster, clock = instantClock(), ...more }: Stage,
): OpenCluster {
  const lock = readLock(folder, cluster.metadata.name);
  return new OpenCluster({
    place: {
      file: "cluster.yaml",
      folder,
      text: "",
      cluster,
      lock,
      machines: machinesOf(cluster, lock.machines),
      patches: new Map(),
    },
    secretsFile: join(folder, "secrets.enc.yaml"),
    drivers: new Map([["pve", world.driver(clock)]]),
    talos: world.talos,
    kubernetes: world.kubernetes,
    clock,
    journal: { append: () => undefined, lines: () => [] },
    prepareImage: async (url) => url,
    keepSnapshot: async () => ({ at: clock.now(), file: "etcd.snapshot", sha256: "0" }),
    ...more,
  });
}
