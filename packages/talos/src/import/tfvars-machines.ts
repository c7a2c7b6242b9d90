// Machines in people's Terraform variables: as maps of maps, as lists of addresses, as names with their nodes, or only
// counted.
import { isIP } from "node:net";
import {
  hostnameOf,
  type ImportedMachine,
  isTree,
  listOf,
  numberOf,
  textOf,
  textsOf,
  type Tree,
} from "./imported-cluster.ts";
import { isControlPlane } from "./machine-role.ts";
import type { TfvarsValues } from "./tfvars-values.ts";

export const CONTROL_PLANE = "(?:control(?:_?planes?|lers?)?|masters?|cp)";
export const WORKER = "workers?";

/** It has cores and a VMID too. */
const TEMPLATE = /template/;
/** Where machines are counted, what a role has says how large they are. */
const COUNT = new RegExp(`(${CONTROL_PLANE}|${WORKER})(_nodes?|_vms?)?_count$`);

export function tfvarsMachines(
  values: Tree,
  all: TfvarsValues,
  placed: Placement,
): readonly ImportedMachine[] {
  for (const found of [described(values, all), listed(values, all), counted(all, placed)])
    if (found.length > 0) return found;
  return [];
}

export interface Placement {
  readonly all: readonly string[];
  readonly controlPlane: readonly string[];
  readonly worker: readonly string[];
}

/** Which nodes machines are dealt out to: a list, a list for each role, or a map by node. */
export function placement(values: Tree, all: TfvarsValues): Placement {
  const [key, said] =
    Object.entries(values).find(([name]) => /node_(distribution|placement)$/.test(name)) ?? [];
  const nobody = { all: [], controlPlane: [], worker: [] };
  if (key === undefined) return nobody;
  if (Array.isArray(said)) {
    all.take(key);
    return { ...nobody, all: textsOf(said) };
  }
  if (!isTree(said)) return nobody;
  const of = (role: string): readonly string[] => {
    const found = Object.entries(said).find(([name]) => new RegExp(`^${role}(_nodes?)?$`).test(name))?.[1];
    return isTree(found) ? Object.keys(found) : textsOf(found);
  };
  const [controlPlane, worker] = [of(CONTROL_PLANE), of(WORKER)];
  const isByRole = controlPlane.length + worker.length > 0;
  const isByNode =
    !isByRole && Object.values(said).every((value) => isTree(value) || typeof value === "number");
  if (isByRole || isByNode) all.take(key);
  return { all: isByNode ? Object.keys(said) : [], controlPlane, worker };
}

/** Maps of maps (or lists of them) in which each one has an address, a VMID or a node; or such a machine alone, by its role. */
function described(tree: Tree, all: TfvarsValues, group = ""): readonly ImportedMachine[] {
  return Object.entries(tree).flatMap(([key, value]): readonly ImportedMachine[] => {
    if (TEMPLATE.test(key)) return [];
    const path = group === "" ? key : `${group}_${key}`;
    if (isMachine(value) && isControlPlane(key) !== undefined && !all.has(COUNT)) {
      return [machine({ name: key, item: value, group: key }, all, path, path)];
    }
    const entries: readonly Entry[] = Array.isArray(value)
      ? (value as unknown[]).map((item, at) => [`${key}-${at + 1}`, item, `${path}_${at + 1}`])
      : Object.entries(isTree(value) ? value : {}).map(([name, item]) => [name, item, `${path}_${name}`]);
    const others = Object.fromEntries(entries.filter(([, item]) => !isMachine(item)));
    return [
      ...entries.flatMap(([name, item, own]) =>
        !TEMPLATE.test(name) && isMachine(item)
          ? [machine({ name, item, group: key }, all, own, `${path}_*`)]
          : [],
      ),
      ...(isTree(value) && group === "" ? described(others, all, key) : []),
    ];
  });
}

/** A name, what it stands for, and its path among the values. */
type Entry = readonly [string, unknown, string];

function isMachine(value: unknown): value is Tree {
  if (!isTree(value)) return false;
  const keys = Object.keys(value);
  const hasPlace = keys.some((key) =>
    /^(ip(_addr(ess)?)?|vm_?id|pve_id|host_node|pve_node|target_node)$/.test(key),
  );
  return (
    hasPlace && keys.some((key) => /^(cpu|cores|memory|ram|ram_dedicated|hostname|machine_type)/.test(key))
  );
}

function machine(
  { name, item, group }: { readonly name: string; readonly item: Tree; readonly group: string },
  all: TfvarsValues,
  path: string,
  together: string,
): ImportedMachine {
  const used = new Set<string>();
  const find = <T>(pattern: RegExp, read: (value: unknown) => T | undefined): T | undefined => {
    for (const [key, value] of Object.entries(item)) {
      const found = pattern.test(key) ? read(value) : undefined;
      if (found === undefined) continue;
      used.add(key);
      return found;
    }
    return undefined;
  };
  const called = find(/^(hostname|name)$/, textOf) ?? name;
  const role = find(/^(machine_type|role|type)$/, textOf);
  const isAddress = /^[\d.]+$|:/.test(name);
  const found = {
    hostname: hostnameOf(isAddress && called === name ? "" : called),
    isControlPlane: isControlPlane(role, group, called, name) === true,
    address: find(/^ip(_addr(ess)?)?$/, addressIn) ?? addressIn(name),
    mac: find(/^mac(_address)?$/, textOf),
    vmid: find(/^(vm_?id|pve_id)$/, numberOf),
    host: find(/^(host_node|pve_node|target_node|node(_name)?)$/, textOf),
    cores: find(/^(cpu|cores|cpu_cores)$/, numberOf),
    memoryMiB: find(/^(ram_dedicated|memory|ram|memory_mb)$/, memoryOf),
    diskGiB: find(/^(os_disk_size|disk_size|disk)$/, (value) => gibOf(value)),
  };
  all.takeMachine(path, together, used);
  return found;
}

function addressIn(value: unknown): string | undefined {
  const address = textOf(value)?.split("/")[0] ?? "";
  return isIP(address) === 0 ? undefined : address;
}

/** No machine runs with so few MiB: that many are GiB. */
const MOST_GIB = 512;

function memoryOf(value: unknown): number | undefined {
  const gib = gibOf(value, "");
  if (gib !== undefined) return gib * 1024;
  const number = numberOf(typeof value === "string" ? value.replace(/ *Mi?B?$/i, "") : value);
  return number === undefined || number > MOST_GIB ? number : number * 1024;
}

/** "50G", as Proxmox writes sizes; where a number alone means GiB too, the unit may be missing. */
function gibOf(value: unknown, unit = "(?:[gG]i?[bB]?)?"): number | undefined {
  const pattern = new RegExp(`^(\\d+) *${unit === "" ? "[gG]i?[bB]?" : unit}$`);
  return numberOf(pattern.exec(textOf(value) ?? "")?.[1]);
}

/** Lists of addresses by role, and names with the node that each is on. */
function listed(values: Tree, all: TfvarsValues): readonly ImportedMachine[] {
  const of = (role: string, isOfControlPlane: boolean): readonly ImportedMachine[] => {
    const places = Object.entries(values).flatMap(([key, value]) => {
      const isAddresses = new RegExp(`(^|_)${role}(_nodes?|_vms?)?_(ips?|ip_addresses|addresses)$`).test(key);
      const isNamed = new RegExp(`(^|_)${role}(_nodes?|_vms?)?$`).test(key);
      const found = isAddresses ? addresses(value) : isNamed ? [...addresses(value), ...named(value)] : [];
      if (found.length > 0) all.take(key);
      return found;
    });
    const size = sizeOfRole(all, role);
    return places.map((place) => ({ hostname: "", isControlPlane: isOfControlPlane, ...size, ...place }));
  };
  return [...of(CONTROL_PLANE, true), ...of(WORKER, false)];
}

function addresses(value: unknown): readonly Partial<ImportedMachine>[] {
  return listOf(value).flatMap((item) => {
    const address = addressIn(item);
    return address === undefined ? [] : [{ address }];
  });
}

function named(value: unknown): readonly Partial<ImportedMachine>[] {
  if (!isTree(value)) return [];
  const entries = Object.entries(value);
  const isText = (entry: readonly [string, unknown]): entry is [string, string] =>
    typeof entry[1] === "string";
  // Numbers say how many and how large, not where.
  if (!entries.every(isText)) return [];
  return entries.map(([name, text]) => {
    const address = text.split("/")[0] ?? "";
    return { hostname: hostnameOf(name), ...(isIP(address) === 0 ? { host: text } : { address }) };
  });
}

function sizeOfRole(all: TfvarsValues, role: string) {
  const find = <T>(what: string, read: (value: unknown) => T | undefined): T | undefined =>
    all.find(new RegExp(`${role}(_nodes?|_vms?)?_(${what})$`), read) ??
    all.find(new RegExp(`^((default|vm|node)s?_)?(${what})$`), read);
  return {
    cores: find("cores|cpu|cpus|cpu_cores", numberOf),
    memoryMiB: find("memory|memory_mb|ram", memoryOf),
    diskGiB: find("disk|disk_size|disk_gb", (value) => gibOf(value)),
  };
}

/** Modules that only count their machines. */
function counted(all: TfvarsValues, placed: Placement): readonly ImportedMachine[] {
  const of = (
    role: string,
    hosts: readonly string[],
    isOfControlPlane: boolean,
  ): readonly ImportedMachine[] => {
    const size = sizeOfRole(all, role);
    const count = all.number(new RegExp(`${role}(_nodes?|_vms?)?_count$`)) ?? 0;
    return Array.from({ length: count }, (_none, at) => ({
      hostname: "",
      isControlPlane: isOfControlPlane,
      ...size,
      host: hosts.length === 0 ? undefined : hosts[at % hosts.length],
    }));
  };
  return [...of(CONTROL_PLANE, placed.controlPlane, true), ...of(WORKER, placed.worker, false)];
}
