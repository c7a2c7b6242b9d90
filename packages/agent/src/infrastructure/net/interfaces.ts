// The host's network interfaces, as `ip -j` tells them.
import { given } from "@gpve/contracts/given.ts";
import { isClusterBridge } from "@gpve/domain/vcluster/cluster-bridge.ts";
import type { BridgeFacts } from "@gpve/domain/node/runtime.ts";
import { type Exec, exec as systemExec } from "@gpve/kit/exec.ts";

export interface NetInterface {
  readonly name: string;
  readonly index: number;
  readonly mtu: number;
  readonly mac: string;
  readonly up: boolean;
  /** "bridge", "tun", "veth", "vlan", "bond", ...; "" for a physical one. */
  readonly kind: string;
  /** The bridge or bond it belongs to. */
  readonly master?: string;
  /** Set by us on what we made: `gpve-<instance>`. */
  readonly alias?: string;
  /** "10.0.0.1/24" */
  readonly addresses: readonly string[];
  /** For bridges: filters by VLAN. */
  readonly vlanAware?: boolean;
}

interface IpLink {
  readonly ifindex: number;
  readonly ifname: string;
  readonly flags?: readonly string[];
  readonly mtu?: number;
  readonly master?: string;
  readonly address?: string;
  readonly ifalias?: string;
  readonly link_type?: string;
  readonly linkinfo?: { readonly info_kind?: string; readonly info_data?: Readonly<Record<string, unknown>> };
  readonly addr_info?: readonly { readonly local?: string; readonly prefixlen?: number }[];
}

export async function listInterfaces(exec: Exec = systemExec): Promise<NetInterface[]> {
  const { stdout } = await exec("ip", ["-j", "-d", "address", "show"]);
  return parseInterfaces(stdout);
}

/** Bridges guests may be on, by name, with the interfaces of the host in them: a guest's are known by the guest. */
export function bridgeFacts(interfaces: readonly NetInterface[]): BridgeFacts[] {
  const isGuests = ({ kind }: NetInterface): boolean => kind === "tun" || kind === "veth";
  return interfaces
    .filter(({ kind, name }) => kind === "bridge" && !isClusterBridge(name))
    .map(({ name, up, mtu, addresses, vlanAware }) => ({
      name,
      up,
      vlanAware: vlanAware === true,
      mtu,
      addresses,
      ports: interfaces
        .filter((each) => each.master === name && !isGuests(each))
        .map((each) => each.name)
        .toSorted(),
    }))
    .toSorted((a, b) => (a.name < b.name ? -1 : 1));
}

export function parseInterfaces(json: string): NetInterface[] {
  return (JSON.parse(json === "" ? "[]" : json) as IpLink[]).map((link) => {
    const kind = link.linkinfo?.info_kind ?? "";
    return {
      name: link.ifname,
      index: link.ifindex,
      mtu: link.mtu ?? 0,
      mac: link.address ?? "",
      up: link.flags?.includes("UP") ?? false,
      kind,
      addresses: (link.addr_info ?? []).map(({ local, prefixlen }) => `${local ?? ""}/${prefixlen ?? 0}`),
      ...given({ master: link.master, alias: link.ifalias }),
      ...(kind === "bridge"
        ? { vlanAware: Number(link.linkinfo?.info_data?.["vlan_filtering"] ?? 0) === 1 }
        : {}),
    };
  });
}
