import type { NetInterface } from "../interfaces.ts";

export interface NatNetwork {
  /** As configurations name it: "vmbr0". */
  readonly name: string;
  /** As the kernel names it. */
  readonly bridge: string;
  /** "10.37.0.0/24" */
  readonly subnet: string;
  readonly gateway: string;
  readonly leaseFile: string;
}

/** Named as PVE names its bridges. */
export function isGuestsBridge(found: NetInterface): boolean {
  return found.kind === "bridge" && /^vmbr\d+$/.test(found.name);
}

/** What an instance writes on interfaces it made. */
export function ownerAlias(instanceId: string): string {
  return `gpve-${instanceId}`;
}

export function isOtherInstances(found: NetInterface, instanceId: string): boolean {
  return (found.alias?.startsWith("gpve-") ?? false) && found.alias !== ownerAlias(instanceId);
}

/** With several data directories on one host only the first has the plain name. */
export function instanceBridgeName(name: string, instanceId: string): string {
  return `g${instanceId}${name}`.slice(0, 15);
}

/** The kernel's name of a bridge that a guest's configuration names. */
export function kernelBridge(
  name: string,
  instanceId: string,
  interfaces: readonly Pick<NetInterface, "name">[],
): string {
  const own = instanceBridgeName(name, instanceId);
  return interfaces.some((found) => found.name === own) ? own : name;
}
