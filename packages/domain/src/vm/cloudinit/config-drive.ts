// What OpenStack's config drive and OpenNebula's context disk hold: /etc/network/interfaces, JSON, shell variables.
import type { VmValues } from "../config/vm-config.ts";
import {
  type CloudinitFacts,
  type CloudinitInterface,
  dnsOf,
  hostNames,
  interfacesOf,
  macOf,
  splitIp4,
  sshKeys,
} from "./cloudinit-source.ts";

const INDENT = "        ";

/** For Linux: name servers once, at the loopback interface. */
export function configDriveNetwork(values: VmValues, facts: CloudinitFacts): string {
  const { servers, search } = dnsOf(values, facts);
  const head = [
    "auto lo",
    "iface lo inet loopback",
    "",
    ...(servers.length === 0 ? [] : [`${INDENT}dns_nameservers ${servers.join(" ")}`]),
    ...(search.length === 0 ? [] : [`${INDENT}dns_search ${search.join(" ")}`]),
  ];
  return [...head, ...stanzas(values, [])].map((line) => `${line}\n`).join("");
}

/** For Windows: cloudbase-init wants name servers with every fixed address, and no loopback. */
export function cloudbaseNetwork(values: VmValues, facts: CloudinitFacts): string {
  const { servers } = dnsOf(values, facts);
  const dns = servers.length === 0 ? [] : [`${INDENT}dns-nameservers ${servers.join(" ")}`];
  return stanzas(values, dns)
    .map((line) => `${line}\n`)
    .join("");
}

export function configDriveMetaData(instanceId: string): string {
  return `{
     "uuid": "${instanceId}",
     "network_config": { "content_path": "/content/0000" }
}
`;
}

/** Windows takes password and keys from here. */
export function cloudbaseMetaData(values: VmValues, instanceId: string): string {
  const password = values["cipassword"];
  const keys = sshKeys(values);
  return JSON.stringify({
    uuid: instanceId,
    network_config: { content_path: "/content/0000" },
    ...(password === undefined || password === "" ? {} : { admin_pass: password }),
    ...(keys === undefined || keys.length === 0
      ? {}
      : { public_keys: Object.fromEntries(keys.map((key, index) => [`key-${index}`, key])) }),
  });
}

export function openNebulaContext(
  values: VmValues,
  facts: CloudinitFacts,
  base64: (text: string) => string,
): string {
  const { servers, search } = dnsOf(values, facts);
  const interfaces = interfacesOf(values);
  const password = values["cipassword"];
  const keys = sshKeys(values);
  const user = values["ciuser"];
  const lines = [
    `USERNAME=${shellWord(user === undefined || user === "" ? "root" : user)}`,
    ...(password === undefined ? [] : [`CRYPTED_PASSWORD_BASE64=${base64(password)}`]),
    ...(keys === undefined
      ? []
      : [`SSH_PUBLIC_KEY=${shellQuoted(keys.map((key) => key.trim()).join("\n"))}`]),
    `SET_HOSTNAME=${shellWord(hostNames(values, facts.vmid).hostname)}`,
    ...(servers.length === 0 ? [] : [`DNS=${shellQuoted(servers.join(" "))}`]),
    ...(search.length === 0 ? [] : [`SEARCH_DOMAIN=${shellQuoted(search.join(" "))}`]),
    ...interfaces.flatMap(openNebulaInterface),
    ...(interfaces.length === 0 ? [] : ["NETWORK=YES"]),
  ];
  return `${lines.join("\n")}\n`;
}

function stanzas(values: VmValues, dns: readonly string[]): string[] {
  return interfacesOf(values).flatMap(({ index, address: { ip, gw, ip6, gw6 } }) => {
    const name = `eth${index}`;
    const fixed = (address: string, mask: string, gateway: string | undefined): string[] => [
      `${INDENT}address ${address}`,
      `${INDENT}netmask ${mask}`,
      ...(gateway === undefined ? [] : [`${INDENT}gateway ${gateway}`]),
      ...dns,
    ];
    const lines = [`auto ${name}`];
    if (ip === "dhcp" || ip === "manual") lines.push(`iface ${name} inet ${ip}`);
    else if (ip !== undefined) {
      const { address, mask } = splitIp4(ip);
      lines.push(`iface ${name} inet static`, ...fixed(address, mask, gw));
    }
    if (ip6 === "dhcp" || ip6 === "auto" || ip6 === "manual") lines.push(`iface ${name} inet6 ${ip6}`);
    else if (ip6 !== undefined) {
      const [address = "", bits = ""] = ip6.split("/");
      lines.push(`iface ${name} inet6 static`, ...fixed(address, bits, gw6));
    }
    return lines;
  });
}

function openNebulaInterface(nic: CloudinitInterface): string[] {
  const { ip, gw, ip6, gw6 } = nic.address;
  const name = `ETH${nic.index}`;
  const mac = macOf(nic).toLowerCase();
  const lines: string[] = [];
  if (ip === "dhcp") lines.push(`${name}_DHCP=YES`);
  else if (ip?.includes("/") === true) {
    const { address, mask } = splitIp4(ip);
    lines.push(`${name}_IP=${address}`, `${name}_MASK=${mask}`, `${name}_MAC=${mac}`);
    if (gw !== undefined) lines.push(`${name}_GATEWAY=${gw}`);
  }
  if (ip6 === "dhcp") lines.push(`${name}_DHCP6=YES`);
  else if (ip6 === "auto") lines.push(`${name}_AUTO6=YES`);
  else if (ip6?.includes("/") === true) {
    const [address = "", bits = ""] = ip6.split("/");
    lines.push(`${name}_IP6=${address}`, `${name}_MASK6=${bits}`, `${name}_MAC6=${mac}`);
    if (gw6 !== undefined) lines.push(`${name}_GATEWAY6=${gw6}`);
  }
  if (nic.net.mtu !== undefined) lines.push(`${name}_MTU=${nic.net.mtu}`);
  return lines;
}

/** Bare where the shell reads it as it stands. */
function shellWord(text: string): string {
  return /^[\w.@%+=:,/-]+$/.test(text) ? text : shellQuoted(text);
}

/** In double quotes, as PVE writes them; what the shell would act on is escaped. */
function shellQuoted(text: string): string {
  return `"${text.replace(/["\\$`]/g, "\\$&")}"`;
}
