// State that was lost, rebuilt from what is there: tags, identities, and what the machines say.
import { AppError } from "@gpve/contracts/errors.ts";
import { given } from "@gpve/contracts/given.ts";
import type { Cluster } from "../cluster/cluster.ts";
import type { ClusterLock } from "../folder/lock-file.ts";
import { decidedVersions } from "../folder/pinned-versions.ts";
import { addressOf } from "./observe/observer.ts";
import { etcdHealth } from "./quorum.ts";
import { configured, controlPlanes, type World } from "./world.ts";

/** The lock as an apply would have left it. */
export function adopted(cluster: Cluster, lock: ClusterLock, world: World): ClusterLock {
  const found = [...world.machines.values()].filter(({ guest }) => guest !== undefined);
  if (found.length === 0) {
    throw new AppError("object.not_found", `no machine of ${cluster.metadata.name} is there`, {
      data: { next: "Machines are known by the tag and the SMBIOS UUID that apply gives them." },
    });
  }
  const at = new Date(world.now).toISOString();
  const isConfigured = found.some((seen) => configured(seen) !== undefined);
  const health = etcdHealth(world);
  const first = health?.members[0]?.hostname;
  // Who has etcd may not be shown: where machines are configured and none tells of it, nobody begins it again unasked.
  const isBegun = first !== undefined || isConfigured;
  return {
    ...lock,
    contract: decidedVersions(lock).contract ?? cluster.versions.contract,
    kubernetes: lock.kubernetes ?? runningKubernetes(world) ?? cluster.versions.kubernetes,
    appliedAt: lock.appliedAt ?? (isConfigured ? at : null),
    ...(isBegun && lock.beginning?.doneAt === undefined
      ? { beginning: { machine: first ?? "", doneAt: at } }
      : {}),
    machines: {
      ...lock.machines,
      ...Object.fromEntries(
        found.flatMap((seen) => {
          const { guest, name, hostname } = seen;
          if (guest === undefined) return [];
          const { host, vmid } = guest.place;
          const addresses = [addressOf(seen)].filter(Boolean);
          const named = given({ hostname: hostname === name ? undefined : hostname });
          return [[name, { provider: guest.provider, host, vmid, addresses, ...named }]];
        }),
      ),
    },
  };
}

/** As every control plane has it; in the middle of an upgrade the file has to say. */
function runningKubernetes(world: World): string | undefined {
  const [version, ...others] = new Set(
    controlPlanes(world).flatMap((seen) => configured(seen)?.config.components ?? []),
  );
  return version === undefined || others.length > 0 ? undefined : `v${version}`;
}
