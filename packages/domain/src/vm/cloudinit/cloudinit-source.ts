// What the files of a cloud-init drive are made from, read out of a VM's configuration.
import { AppError } from "@gpve/contracts/errors.ts";
import type { DnsSettings } from "../../node/host-ports.ts";
import type { NetDevice } from "../config/property-types.ts";
import type { VmValues } from "../config/vm-config.ts";
import { readVmProperty } from "../config/vm-properties.ts";

export type CloudinitType = "nocloud" | "configdrive2" | "opennebula";

/** What the node adds: its own name servers stand in for absent ones, and SHA-1 makes instance ids. */
export interface CloudinitFacts {
  readonly vmid: number;
  readonly dns: DnsSettings;
  readonly sha1: (text: string) => string;
}

export interface CloudinitAddress {
  readonly ip?: string;
  readonly gw?: string;
  readonly ip6?: string;
  readonly gw6?: string;
}

export interface CloudinitInterface {
  /** "0" of net0 and ipconfig0. */
  readonly index: string;
  readonly net: NetDevice;
  readonly address: CloudinitAddress;
}

export interface CloudinitDns {
  readonly servers: readonly string[];
  readonly search: readonly string[];
}

export function isWindows(values: VmValues): boolean {
  return (values["ostype"] ?? "").startsWith("w");
}

/** cloudbase-init on Windows knows only config drives; Linux finds its interfaces by MAC with NoCloud. */
export function cloudinitType(values: VmValues): CloudinitType {
  const chosen = values["citype"];
  if (chosen !== undefined) return chosen as CloudinitType;
  return isWindows(values) ? "configdrive2" : "nocloud";
}

export function hostNames(values: VmValues, vmid: number): { hostname: string; fqdn: string } {
  const name = values["name"] ?? `VM${vmid}`;
  const [short = name] = name.split(".");
  if (name.includes(".")) return { hostname: short, fqdn: name };
  const search = values["searchdomain"];
  return { hostname: name, fqdn: search === undefined || search === "" ? name : `${name}.${search}` };
}

export function dnsOf(values: VmValues, facts: CloudinitFacts): CloudinitDns {
  const { search, dns1, dns2, dns3 } = facts.dns;
  const words = (text: string): string[] => text.split(/[\s,;]+/).filter((word) => word !== "");
  const own = [dns1, dns2, dns3].filter((server) => server !== undefined && server !== "");
  const servers = values["nameserver"];
  return {
    servers: servers === undefined ? (own as string[]) : words(servers),
    search: words(values["searchdomain"] ?? search ?? ""),
  };
}

/** The keys of `sshkeys`, which is percent-encoded text with one key per line. */
export function sshKeys(values: VmValues): string[] | undefined {
  const text = values["sshkeys"];
  if (text === undefined) return undefined;
  return percentDecoded(text)
    .split("\n")
    .map((key) => key.replace(/\r$/, ""))
    .filter((key) => /\S/.test(key));
}

/** Interfaces that have an `ipconfig`, in PVE's order: as text, so net10 stands before net2. */
export function interfacesOf(values: VmValues): CloudinitInterface[] {
  const keys = Object.keys(values).filter((key) => /^net\d+$/.test(key));
  return keys.toSorted().flatMap((key) => {
    const index = key.slice("net".length);
    const text = values[`ipconfig${index}`];
    if (text === undefined || text === "") return [];
    const net = readVmProperty("net", values[key] ?? "", key);
    return [{ index, net, address: readAddress(text, `ipconfig${index}`) }];
  });
}

export function macOf({ index, net }: CloudinitInterface): string {
  if (net.macaddr !== undefined) return net.macaddr;
  throw new AppError("request.invalid", `network interface 'net${index}' has no mac address\n`);
}

/** Address and dotted mask of `10.0.0.2/24`. */
export function splitIp4(cidr: string): { address: string; mask: string } {
  const [address = "", bits] = cidr.split("/");
  if (bits === undefined) throw new AppError("request.invalid", `not a CIDR: ${cidr}\n`);
  const mask = [0, 8, 16, 24].map((done) => 256 - 2 ** (8 - Math.min(8, Math.max(0, Number(bits) - done))));
  return { address, mask: mask.join(".") };
}

function readAddress(text: string, key: string): CloudinitAddress {
  const address = readVmProperty("ipconfig", text, key) as CloudinitAddress;
  if (address.ip === undefined && address.ip6 === undefined) return { ip: "dhcp", ip6: "dhcp" };
  return address;
}

/** Decodes what is valid and keeps the rest, as PVE does: a stray % must not stop a VM from starting. */
function percentDecoded(text: string): string {
  return text.replace(/(?:%[0-9A-Fa-f]{2})+/g, (escapes) => {
    try {
      return decodeURIComponent(escapes);
    } catch {
      return escapes; // not UTF-8
    }
  });
}
