// A cluster for tests: the least a file must say, and more of it where a test asks.
import { parse, stringify } from "yaml";
import type { Cluster } from "../cluster/cluster.ts";
import { parseCluster } from "../cluster/parse-cluster.ts";

export const minimalFile = `apiVersion: gpve.io/v1
kind: TalosCluster
metadata: { name: prod }
versions: { talos: v1.13.9 }
providers:
  - name: pve
    type: qm
    nodes: [pve1, pve2, pve3]
    storage: { image: local, vm: local-lvm, efi: local-lvm, cloudinit: local-lvm }
network: { nodeCIDR: 10.0.0.0/24, gateway: 10.0.0.1 }
endpoint: { vip: 10.0.0.9 }
pools: [{ name: worker, count: 2 }]
`;

/** Keys of the first level are replaced. */
export function testCluster(more: Readonly<Record<string, unknown>> = {}): Cluster {
  const tree = { ...(parse(minimalFile) as Record<string, unknown>), ...more };
  return parseCluster(stringify(tree), "cluster.yaml");
}
