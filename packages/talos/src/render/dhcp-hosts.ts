// What a DHCP server has to know: which machine gets which address. As dnsmasq reads it, and short enough for others.
import { isAsked } from "../cluster/machine-addresses.ts";
import type { Cluster } from "../cluster/cluster.ts";
import type { Machine } from "../cluster/machine.ts";

type Host = Pick<Machine, "mac" | "addresses" | "hostname">;

export function dhcpHosts(
  { metadata, network }: Pick<Cluster, "metadata" | "network">,
  machines: readonly Host[],
): string {
  const lines = machines.flatMap(({ mac, addresses, hostname }) =>
    addresses
      .filter((address) => isAsked(network, address))
      .map((address) => `dhcp-host=${mac.toLowerCase()},${address},${hostname},infinite`),
  );
  return [`# Machines of ${metadata.name}, for dnsmasq.`, ...lines, ""].join("\n");
}
