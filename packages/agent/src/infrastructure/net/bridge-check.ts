import { clusterBridgeRefusal, isClusterBridge } from "@gpve/domain/vcluster/cluster-bridge.ts";
import { missing, refused } from "@gpve/domain/request/failures.ts";
import { AppError } from "@gpve/contracts/errors.ts";
import type { KernelLink } from "./kernel-links.ts";

export interface NicWish {
  /** "net0" */
  readonly key: string;
  readonly bridge: string;
  readonly tag?: number;
  readonly trunks?: string;
}

/** Throws, with the reason in words a person can act on, when a NIC cannot be put on its bridge. */
export function checkBridge(nic: NicWish, interfaces: readonly KernelLink[]): void {
  if (isClusterBridge(nic.bridge)) throw refused(`${nic.key}: ${clusterBridgeRefusal(nic.bridge)}`);
  const bridge = interfaces.find(({ name }) => name === nic.bridge);
  if (bridge === undefined) throw missing(`bridge '${nic.bridge}' does not exist`);
  if (bridge.kind !== "bridge") throw refused(`${nic.key}: '${nic.bridge}' is not a bridge`);
  const wantsVlan = nic.tag !== undefined || (nic.trunks !== undefined && nic.trunks !== "");
  if (wantsVlan && bridge.vlanAware !== true)
    throw new AppError(
      "feature.unsupported",
      `${nic.key}: bridge '${nic.bridge}' does not filter VLANs, so tag and trunks cannot be kept: make it VLAN aware, or remove them`,
      { pveStatus: 500 },
    );
}

/** Arguments for `bridge`, in order, that give a tap its VLANs. */
export function vlanCommands(tap: string, nic: Pick<NicWish, "tag" | "trunks">): string[][] {
  const commands: string[][] = [["vlan", "del", "dev", tap, "vid", "1-4094"]];
  for (const range of (nic.trunks ?? "").split(";").filter((part) => part !== ""))
    commands.push(["vlan", "add", "dev", tap, "vid", range]);
  if (nic.tag !== undefined)
    commands.push(["vlan", "add", "dev", tap, "vid", String(nic.tag), "pvid", "untagged"]);
  return commands;
}
