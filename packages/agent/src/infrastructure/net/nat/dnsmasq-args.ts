import type { NatNetwork } from "./nat-network.ts";
import { ipv4Range, ipv4Text } from "./subnet.ts";

/** Serves one bridge and nothing else of the host; reads no configuration of the host's own dnsmasq. */
export function dnsmasqArgs(network: NatNetwork): string[] {
  const first = ipv4Range(network.subnet)?.first ?? 0;
  return [
    "--keep-in-foreground",
    "--conf-file=/dev/null",
    "--log-facility=-",
    "--pid-file=",
    `--interface=${network.bridge}`,
    "--except-interface=lo",
    "--bind-dynamic",
    "--no-hosts",
    `--dhcp-range=${ipv4Text(first + 100)},${ipv4Text(first + 250)},255.255.255.0,12h`,
    `--dhcp-option=option:router,${network.gateway}`,
    `--dhcp-option=option:dns-server,${network.gateway}`,
    "--dhcp-authoritative",
    "--dhcp-rapid-commit",
    `--dhcp-leasefile=${network.leaseFile}`,
    "--domain-needed",
    "--bogus-priv",
  ];
}
