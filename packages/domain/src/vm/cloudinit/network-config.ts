// network-config of NoCloud drives. Version 1 is what PVE writes; version 2 is netplan's, for those who ask for it.
import type { VmValues } from "../config/vm-config.ts";
import {
  type CloudinitFacts,
  type CloudinitInterface,
  dnsOf,
  interfacesOf,
  macOf,
  splitIp4,
} from "./cloudinit-source.ts";
import { yamlSingleQuoted as quoted } from "./yaml-scalar.ts";

export function networkConfigV1(values: VmValues, facts: CloudinitFacts): string {
  const { servers, search } = dnsOf(values, facts);
  const lines = [
    "version: 1",
    "config:",
    ...interfacesOf(values).flatMap((nic) => [
      "    - type: physical",
      `      name: eth${nic.index}`,
      `      mac_address: ${quoted(macOf(nic).toLowerCase())}`,
      "      subnets:",
      ...[...subnet4(nic), ...subnet6(nic)].map((line) => `      ${line}`),
    ]),
    "    - type: nameserver",
    ...list("      address:", "      ", servers),
    ...list("      search:", "      ", search),
  ];
  return `${lines.join("\n")}\n`;
}

export function networkConfigV2(values: VmValues, facts: CloudinitFacts): string {
  const { servers, search } = dnsOf(values, facts);
  const indent = "        ";
  const dns = [
    `${indent}nameservers:`,
    ...list(`${indent}  addresses:`, `${indent}  `, servers),
    ...list(`${indent}  search:`, `${indent}  `, search),
  ];
  const lines = interfacesOf(values).flatMap((nic, position) => {
    const { ip, gw, ip6, gw6 } = nic.address;
    const fixed = [ip, ip6].filter((address) => address?.includes("/") === true) as string[];
    return [
      `    net${nic.index}:`,
      `${indent}match:`,
      `${indent}    macaddress: "${macOf(nic)}"`,
      `${indent}set-name: eth${nic.index}`,
      ...(ip === "dhcp" ? [`${indent}dhcp4: true`] : []),
      ...(ip6 === "dhcp" ? [`${indent}dhcp6: true`] : []),
      ...(ip6 === "auto" ? [`${indent}accept-ra: true`] : []),
      ...list(`${indent}addresses:`, indent, fixed),
      ...(gw === undefined ? [] : [`${indent}gateway4: ${quoted(gw)}`]),
      ...(gw6 === undefined ? [] : [`${indent}gateway6: ${quoted(gw6)}`]),
      ...(position === 0 && servers.length + search.length > 0 ? dns : []),
    ];
  });
  return `${["version: 2", lines.length === 0 ? "ethernets: {}" : "ethernets:", ...lines].join("\n")}\n`;
}

function subnet4({ address: { ip, gw } }: CloudinitInterface): string[] {
  if (ip === undefined) return [];
  if (ip === "dhcp") return ["- type: dhcp4"];
  if (ip === "manual") return ["- type: manual"];
  const { address, mask } = splitIp4(ip);
  return [
    "- type: static",
    `  address: ${quoted(address)}`,
    `  netmask: ${quoted(mask)}`,
    ...(gw === undefined ? [] : [`  gateway: ${quoted(gw)}`]),
  ];
}

function subnet6({ address: { ip6, gw6 } }: CloudinitInterface): string[] {
  if (ip6 === undefined) return [];
  if (ip6 === "dhcp") return ["- type: dhcp6"];
  if (ip6 === "auto") return ["- type: ipv6_slaac"];
  if (ip6 === "manual") return ["- type: manual"];
  return [
    "- type: static6",
    `  address: ${quoted(ip6)}`,
    ...(gw6 === undefined ? [] : [`  gateway: ${quoted(gw6)}`]),
  ];
}

function list(head: string, indent: string, items: readonly string[]): string[] {
  return items.length === 0 ? [] : [head, ...items.map((item) => `${indent}- ${quoted(item)}`)];
}
