// What cloud controllers, and the platform's CSI driver, need of the machines' configurations.
import type { Cluster } from "./cluster.ts";
import type { Machine } from "./machine.ts";

type Addons = Pick<Cluster, "addons">;

/** Nodes join with a taint, which a controller takes away once it knows them. */
export const waitsForController = ({ addons }: Addons): boolean =>
  addons.ccm.talos.enabled || addons.ccm.proxmox.enabled;

/** Talos' controller is the one that knows nodes where there are both. */
export const isProxmoxInitializing = ({ addons }: Addons): boolean =>
  addons.ccm.proxmox.enabled && !addons.ccm.talos.enabled;

/** Talos' controller reads the machines' own API, with what Talos puts into a Secret for it. */
export const readsTalosApi = ({ addons }: Addons): boolean => addons.ccm.talos.enabled;

/** How those who work with the platform find a node's machine there; undefined: nobody looks. */
export function platformNames(
  cluster: Addons,
  { provider, vmid, host }: Pick<Machine, "provider" | "vmid" | "host">,
): { readonly id: string; readonly labels: Readonly<Record<string, string>> } | undefined {
  const isLookedFor = waitsForController(cluster) || cluster.addons.csi.proxmox !== undefined;
  if (!isLookedFor) return undefined;
  return {
    id: `proxmox://${provider}/${vmid}`,
    labels: { "topology.kubernetes.io/region": provider, "topology.kubernetes.io/zone": host },
  };
}
