// What a control plane finds when it starts: keys, certificates, kubeconfigs of its parts, and the rules that are files.
import { controlPlaneCertificates } from "@gpve/domain/vcluster/certificates.ts";
import { serverName } from "@gpve/domain/vcluster/cluster-front.ts";
import { API_PORT } from "@gpve/domain/vcluster/control-plane.ts";
import { etcdCertificates } from "@gpve/domain/vcluster/etcd.ts";
import { replicaSlot } from "@gpve/domain/vcluster/overlay.ts";
import { calledOf, type KeptCluster } from "@gpve/domain/vcluster/ports.ts";
import { replicaAddresses } from "@gpve/domain/vcluster/replicas/replica-places.ts";
import { writeAuditPolicy } from "./cluster-audit.ts";
import { writeGuard } from "./cluster-guard.ts";
import type { ClusterKeys } from "./cluster-keys.ts";

export interface EquippedCluster {
  readonly cluster: KeptCluster;
  /** Of its control plane, which need not be there yet. */
  readonly address: string;
  /** Names and addresses of this node, by which clients may reach it. */
  readonly nodeNames: readonly string[];
  readonly folder: string;
  readonly keys: ClusterKeys;
}

/** What is there stays, unless it would end soon. */
export async function equipCluster(at: EquippedCluster): Promise<void> {
  const { cluster, address, nodeNames, folder, keys } = at;
  const { serviceCidr, dnsDomain, backingStore } = cluster.spec;
  await keys.ensure([
    ...controlPlaneCertificates({
      serviceCidr,
      dnsDomain,
      address,
      // Workers ask for any of several replicas at the address of one.
      alsoKnownAs: [
        serverName(calledOf(cluster), cluster.tenant),
        ...nodeNames,
        ...(isReplica(cluster) ? replicaAddresses(address) : []),
      ],
    }),
    ...(backingStore === "etcd" ? etcdCertificates(address) : []),
  ]);
  writeRules(at);
  writeAuditPolicy(folder);
  for (const part of ["controller-manager", "scheduler"])
    keys.writeKubeconfig(part, `https://${address}:${API_PORT}`);
}

/** What it may not let happen; heard also by one that runs. */
export function writeRules({
  cluster,
  folder,
  keys,
}: Pick<EquippedCluster, "cluster" | "folder" | "keys">): void {
  writeGuard(folder, cluster, { amongOthers: isReplica(cluster), revoked: Object.keys(keys.revoked) });
}

function isReplica({ overlay }: KeptCluster): boolean {
  return replicaSlot(overlay) !== undefined;
}
