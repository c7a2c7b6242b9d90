// The host's interfaces in PVE's words. Types differ from field to field, as clients of PVE read them.
import { isClusterBridge } from "@gpve/domain/vcluster/cluster-bridge.ts";
import { type Exec, exec as systemExec } from "@gpve/kit/exec.ts";
import { listInterfaces, type NetInterface } from "./interfaces.ts";

export interface InterfaceRow {
  readonly [key: string]: unknown;
  readonly iface: string;
  readonly type: string;
}

interface Route {
  readonly gateway?: string;
  readonly dev?: string;
}

const TYPES: Readonly<Record<string, string>> = {
  bridge: "bridge",
  bond: "bond",
  vlan: "vlan",
  "": "eth",
  veth: "eth",
};
const DEFAULT_MTU = 1500;

export async function interfaceRows(exec: Exec = systemExec): Promise<InterfaceRow[]> {
  const [interfaces, routes, routes6] = await Promise.all([
    listInterfaces(exec),
    defaultRoutes(exec, "-4"),
    defaultRoutes(exec, "-6"),
  ]);
  return interfaces
    .filter((found) => isShown(found))
    .toSorted((a, b) => (a.name < b.name ? -1 : 1))
    .map((found, index) => row(found, interfaces, routes, routes6, index + 3));
}

async function defaultRoutes(exec: Exec, family: "-4" | "-6"): Promise<readonly Route[]> {
  const { stdout } = await exec("ip", [family, "-j", "route", "show", "default"]);
  return JSON.parse(stdout.trim() === "" ? "[]" : stdout) as Route[];
}

/** Not the loopback, and nothing that belongs to a guest or a virtual cluster. */
function isShown({ name, kind, master }: NetInterface): boolean {
  return (
    name !== "lo" &&
    !isClusterBridge(name) &&
    TYPES[kind] !== undefined &&
    !(kind === "veth" && master !== undefined)
  );
}

function row(
  found: NetInterface,
  all: readonly NetInterface[],
  routes: readonly Route[],
  routes6: readonly Route[],
  priority: number,
): InterfaceRow {
  const { name, kind } = found;
  const cidr = found.addresses.find((address) => !address.includes(":"));
  const cidr6 = found.addresses.find((address) => address.includes(":") && !address.startsWith("fe80:"));
  const ports = all.filter(({ master }) => master === name).map((port) => port.name);
  const [parent, tag] = [/^(.+)\.(\d+)$/.exec(name)?.[1], /^(.+)\.(\d+)$/.exec(name)?.[2]];
  return {
    iface: name,
    type: TYPES[kind] ?? "unknown",
    exists: 1,
    ...(found.up ? { active: 1 } : {}),
    method: cidr === undefined ? "manual" : "static",
    method6: cidr6 === undefined ? "manual" : "static",
    families: ["inet", ...(cidr6 === undefined ? [] : ["inet6"])],
    priority,
    ...addressFields(cidr, "", gatewayOf(routes, name)),
    ...addressFields(cidr6, "6", gatewayOf(routes6, name)),
    ...(found.mtu === DEFAULT_MTU ? {} : { mtu: String(found.mtu) }),
    ...(kind === "bridge"
      ? {
          bridge_ports: ports.filter((port) => !port.startsWith("tap")).join(" "),
          bridge_stp: "off",
          bridge_fd: "0",
          ...(found.vlanAware === true ? { bridge_vlan_aware: 1 } : {}),
        }
      : {}),
    ...(kind === "bond" ? { slaves: ports.join(" ") } : {}),
    ...(kind === "vlan" && parent !== undefined ? { "vlan-raw-device": parent, "vlan-id": tag } : {}),
  };
}

function gatewayOf(routes: readonly Route[], name: string): string | undefined {
  return routes.find(({ dev }) => dev === name)?.gateway;
}

function addressFields(
  cidr: string | undefined,
  family: "" | "6",
  gateway: string | undefined,
): Record<string, string> {
  if (cidr === undefined) return {};
  const [address = "", bits = ""] = cidr.split("/");
  return {
    [`address${family}`]: address,
    [`netmask${family}`]: bits,
    [`cidr${family}`]: cidr,
    ...(gateway === undefined ? {} : { [`gateway${family}`]: gateway }),
  };
}
