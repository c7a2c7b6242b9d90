// Formats of firewall rules: addresses, ports, protocols.
import { isCidr, isIp, isIpv4 } from "./address.ts";

type Rule = (value: string) => string | undefined;

const ALIAS = /^(?:(?:dc|guest)\/)?[A-Za-z][A-Za-z0-9\-_]+$/;
const IPSET = /^\+(?:(?:dc|guest)\/)?[A-Za-z][A-Za-z0-9\-_]+$|^\+sdn\/[A-Za-z][A-Za-z0-9\-_.]+$/;
const NAME = /^[A-Za-z][A-Za-z0-9.\-_+]*$/;

/** `+ipset`, an alias, or a comma list of addresses, networks and (alone) a range, of one IP family. */
function addressSpec(value: string): string | undefined {
  if (value.startsWith("+"))
    return IPSET.test(value) ? undefined : `invalid characters in IPSet name '${value}'\n`;
  if (ALIAS.test(value)) return undefined;
  const parts = value.split(",").map((part) => part.trim());
  let family: boolean | undefined;
  for (const part of parts) {
    const range = /^([^-]+)-([^-]+)$/.exec(part);
    if (range !== null && parts.length > 1) return "IP range not allowed in list\n";
    const addresses = range === null ? [part.replace(/\/\d+$/, "")] : [range[1] ?? "", range[2] ?? ""];
    if (!addresses.every(isIp) || (part.includes("/") && !isCidr(part, 0)))
      return `invalid IP address: ${part}\n`;
    for (const address of addresses) {
      const v4 = isIpv4(address);
      if (family !== undefined && family !== v4)
        return "detected mixed ipv4/ipv6 addresses in address list\n";
      family = v4;
    }
  }
  return undefined;
}

/** Comma list of ports, ranges `N:M` and service names; a range counts as two of the fifteen numbers allowed. */
function portSpec(value: string): string | undefined {
  let count = 0;
  for (const item of value.split(",").map((part) => part.trim())) {
    const range = /^(\d+):(\d+)$/.exec(item);
    if (range !== null) {
      count += 2;
      const [low, high] = [Number(range[1]), Number(range[2])];
      if (low > 65_535 || high > 65_535) return `invalid port '${item}'\n`;
      if (low > high) return `backwards range '${item}' not allowed, did you mean '${high}:${low}'?\n`;
      continue;
    }
    count += 1;
    const isPort = /^\d+$/.test(item) ? Number(item) <= 65_535 : NAME.test(item);
    if (!isPort) return `invalid port '${item}'\n`;
  }
  return count > 15 ? "too many entries in port list (> 15 numbers)\n" : undefined;
}

export const firewallRules: readonly (readonly [string, Rule])[] = [
  ["pve-fw-addr-spec", addressSpec],
  [
    "IPorCIDRorAlias",
    (v) =>
      isIp(v) || isCidr(v, 0) || ALIAS.test(v)
        ? undefined
        : "value does not look like a valid IP address or CIDR network\n",
  ],
  ["pve-fw-sport-spec", portSpec],
  ["pve-fw-dport-spec", portSpec],
  [
    "pve-fw-protocol-spec",
    (v) =>
      v === "" || NAME.test(v) || (/^\d{1,3}$/.test(v) && Number(v) <= 255)
        ? undefined
        : `unknown protocol '${v}'\n`,
  ],
  [
    "pve-fw-icmp-type-spec",
    (v) =>
      /^(?:[a-z][a-z0-9-]*|any|\d{1,3}(?:\/\d{1,3})?)$/i.test(v)
        ? undefined
        : `invalid icmp-type value '${v}'\n`,
  ],
  [
    "pve-fw-conntrack-helper",
    (v) => {
      const known = ["amanda", "ftp", "irc", "netbios-ns", "pptp", "sane", "sip", "snmp", "tftp"];
      const bad = v.split(/[,;\s]+/).find((helper) => helper !== "" && !known.includes(helper));
      return bad === undefined ? undefined : `value does not look like a valid conntrack helper\n`;
    },
  ],
];
