// A node's report as servers take it in: whatever an agent sends, of any version, becomes the types that lists and
// metrics count on, or is left out. Numbers that an older agent does not send are 0.
import { given } from "@gpve/contracts/given.ts";
import type {
  BridgeFacts,
  Capability,
  CpuFlagFacts,
  GuestEnd,
  GuestRuntime,
  NodeFacts,
  NodeReport,
  NodeReserve,
  NodeUsage,
  StorageRuntime,
} from "./runtime.ts";
import { storageCollection } from "../storage/definition.ts";
import type { NodeDefaults } from "../vm/spec/vm-defaults.ts";
import { decodeStandbyRow, decodeVirtualCluster } from "./decode-vcluster.ts";
import { fields, list, mapOf, number, text, optionalText, texts, oneOf, type Row } from "./report-fields.ts";
import { guestTypes } from "../guest/guest-words.ts";

/** An agent keeps fewer, and says less of each. */
const MAX_ENDS = 256;
const MAX_WHY = 1_000;
const MAX_NAME = 128;
const MAX_STORAGES = 64;
const MAX_CARDS = 32;

export interface DecodedReport {
  readonly report: NodeReport;
  /** What was left out, and why: "guest 3 of the report: vmid is not a number". */
  readonly leftOut: readonly string[];
}

/** Throws when it is no report at all; a part of it that cannot be read hides no other part. */
export function decodeReport(json: unknown): DecodedReport {
  const row = fields(json, "report");
  const leftOut: string[] = [];
  const part = <T>(what: string, read: () => T): T | undefined => {
    try {
      return read();
    } catch (err) {
      leftOut.push(`${what}: ${(err as Error).message}`);
      return undefined;
    }
  };
  const each = <T>(name: string, what: string, read: (json: unknown) => T): T[] =>
    list(row[name], name).flatMap((item, at) => part(`${what} ${at} of the report`, () => read(item)) ?? []);
  const facts = row["facts"] === undefined ? undefined : part("facts", () => decodeFacts(row["facts"]));
  const report: NodeReport = {
    node: text(row, "node"),
    at: number(row, "at"),
    agentVersion: optionalText(row, "agentVersion"),
    usage: decodeUsage(row["usage"]),
    guests: each("guests", "guest", decodeGuestRuntime),
    storages: each("storages", "storage", decodeStorage),
    ...(row["reserve"] === undefined
      ? {}
      : given({ reserve: part("reserve", () => decodeReserve(row["reserve"])) })),
    ...(row["defaults"] === undefined
      ? {}
      : given({ defaults: part("defaults", () => decodeDefaults(row["defaults"])) })),
    ...(row["declaredStorages"] === undefined
      ? {}
      : {
          declaredStorages: each("declaredStorages", "storage", (json) =>
            storageCollection.decode(json),
          ).slice(0, MAX_STORAGES),
        }),
    ...(row["vclusters"] === undefined
      ? {}
      : { vclusters: each("vclusters", "virtual cluster", decodeVirtualCluster) }),
    ...(row["standbys"] === undefined ? {} : { standbys: each("standbys", "standby", decodeStandbyRow) }),
    ...(row["ends"] === undefined ? {} : { ends: each("ends", "end", decodeEnd).slice(-MAX_ENDS) }),
    ...given({ facts }),
  };
  return { report, leftOut };
}

function decodeReserve(json: unknown): NodeReserve {
  const row = fields(json, "reserve");
  const overcommit = fields(row["overcommit"], "overcommit");
  return {
    cpu: number(row, "cpu"),
    memoryBytes: number(row, "memoryBytes"),
    overcommit: { cpu: number(overcommit, "cpu"), memory: number(overcommit, "memory") },
  };
}

function decodeDefaults(json: unknown): NodeDefaults {
  const row = fields(json, "defaults");
  const names = (["machine", "cpu", "bridge"] as const).filter((name) => row[name] !== undefined);
  return Object.fromEntries(names.map((name) => [name, text(row, name).slice(0, MAX_NAME)]));
}

function decodeEnd(json: unknown): GuestEnd {
  const row = fields(json, "end");
  return {
    vmid: number(row, "vmid"),
    at: number(row, "at"),
    isCrash: row["isCrash"] === true,
    why: optionalText(row, "why").slice(0, MAX_WHY),
    ...(row["owner"] === undefined ? {} : { owner: text(row, "owner").slice(0, MAX_NAME) }),
  };
}

function decodeUsage(json: unknown): NodeUsage {
  const row = fields(json, "usage");
  const [memory, swap, rootfs] = ["memory", "swap", "rootfs"].map((name) => fields(row[name] ?? {}, name));
  const load = list(row["loadavg"] ?? [], "loadavg").map((value) => number({ value }, "value"));
  return {
    cpu: number(row, "cpu"),
    wait: number(row, "wait"),
    loadavg: [load[0] ?? 0, load[1] ?? 0, load[2] ?? 0],
    memory: {
      total: number(memory, "total"),
      used: number(memory, "used"),
      free: number(memory, "free"),
      available: number(memory, "available"),
    },
    swap: { total: number(swap, "total"), used: number(swap, "used"), free: number(swap, "free") },
    rootfs: {
      total: number(rootfs, "total"),
      used: number(rootfs, "used"),
      free: number(rootfs, "free"),
      avail: number(rootfs, "avail"),
    },
    uptimeSeconds: number(row, "uptimeSeconds"),
    netIn: number(row, "netIn"),
    netOut: number(row, "netOut"),
  };
}

function decodeGuestRuntime(json: unknown): GuestRuntime {
  const row = fields(json, "guest");
  const vmid = number(row, "vmid");
  if (!Number.isSafeInteger(vmid) || vmid < 1) throw new TypeError("vmid is none");
  const counters = <K extends string>(name: string, ...keys: K[]) =>
    row[name] === undefined
      ? undefined
      : mapOf(row[name], name, (each) => {
          const counter = fields(each, name);
          return Object.fromEntries(keys.map((key) => [key, number(counter, key)])) as Record<K, number>;
        });
  const drives = counters("drives", "read", "written");
  const nics = counters("nics", "netin", "netout");
  return {
    vmid,
    type: oneOf(row, "type", guestTypes),
    status: oneOf(row, "status", ["running", "stopped"]),
    uptimeSeconds: number(row, "uptimeSeconds"),
    cpu: number(row, "cpu"),
    mem: number(row, "mem"),
    diskread: number(row, "diskread"),
    diskwrite: number(row, "diskwrite"),
    netin: number(row, "netin"),
    netout: number(row, "netout"),
    ...(row["memhost"] === undefined ? {} : { memhost: number(row, "memhost") }),
    ...given({ drives, nics }),
    ...(row["addresses"] === undefined ? {} : { addresses: addressList(row["addresses"]) }),
    ...(row["extra"] === undefined ? {} : { extra: fields(row["extra"], "extra") }),
  };
}

/** Shown to people: nothing but addresses, and no more of them than a guest has cards. */
function addressList(json: unknown): string[] {
  const isAddress = (each: unknown): each is string =>
    typeof each === "string" && /^[0-9a-fA-F:.]{2,45}$/.test(each);
  if (!Array.isArray(json) || json.length > MAX_CARDS || !json.every(isAddress))
    throw new TypeError("addresses are none");
  return json;
}

const MAX_PROBLEM = 500;

function decodeStorage(json: unknown): StorageRuntime {
  const row = fields(json, "storage");
  return {
    storage: text(row, "storage"),
    active: row["active"] === true,
    totalBytes: number(row, "totalBytes"),
    usedBytes: number(row, "usedBytes"),
    availBytes: number(row, "availBytes"),
    ...(typeof row["problem"] === "string" ? { problem: row["problem"].slice(0, MAX_PROBLEM) } : {}),
  };
}

function decodeFacts(json: unknown): NodeFacts {
  const row = fields(json, "facts");
  const [kernel, cpu] = ["kernel", "cpu"].map((name) => fields(row[name] ?? {}, name));
  const rows = (name: string) => list(row[name] ?? [], name).map((item) => fields(item, name));
  return {
    hostname: text(row, "hostname"),
    kernel: {
      sysname: optionalText(kernel, "sysname"),
      release: optionalText(kernel, "release"),
      version: optionalText(kernel, "version"),
      machine: optionalText(kernel, "machine"),
    },
    osImage: optionalText(row, "osImage"),
    bootMode: row["bootMode"] === "efi" ? "efi" : "legacy-bios",
    secureBoot: row["secureBoot"] === true,
    bootId: optionalText(row, "bootId"),
    cpu: {
      model: optionalText(cpu, "model"),
      vendor: optionalText(cpu, "vendor"),
      sockets: number(cpu, "sockets"),
      cores: number(cpu, "cores"),
      cpus: number(cpu, "cpus"),
      mhz: optionalText(cpu, "mhz"),
      flags: optionalText(cpu, "flags"),
      hvm: cpu?.["hvm"] === true,
      userHz: number(cpu, "userHz"),
    },
    memoryBytes: number(row, "memoryBytes"),
    ...(row["numa"] === undefined
      ? {}
      : {
          numa: rows("numa").map((cell) => ({
            cpus: number(cell, "cpus"),
            memoryBytes: number(cell, "memoryBytes"),
          })),
        }),
    disks: rows("disks").map((disk) => ({
      name: text(disk, "name"),
      sizeBytes: number(disk, "sizeBytes"),
      model: optionalText(disk, "model"),
      rotational: disk["rotational"] === true,
    })),
    bridges: texts(row["bridges"], "bridges"),
    ...(row["networks"] === undefined ? {} : { networks: rows("networks").map(decodeBridge) }),
    gpus: rows("gpus").map((gpu) => ({
      uuid: text(gpu, "uuid"),
      model: optionalText(gpu, "model"),
      memoryBytes: number(gpu, "memoryBytes"),
      driver: optionalText(gpu, "driver"),
    })),
    ...(row["devices"] === undefined
      ? {}
      : {
          devices: rows("devices").map((device) => ({
            kind: text(device, "kind"),
            count: number(device, "count"),
          })),
        }),
    cgroupVersion: row["cgroupVersion"] === 1 ? 1 : 2,
    ...(row["qemu"] === undefined ? {} : { qemu: decodeQemu(row["qemu"]) }),
    accelerator:
      row["accelerator"] === undefined ? "none" : oneOf(row, "accelerator", ["kvm", "tcg", "none"]),
    capabilities: rows("capabilities").map(decodeCapability),
  };
}

function decodeBridge(row: Row): BridgeFacts {
  return {
    name: text(row, "name"),
    up: row["up"] === true,
    vlanAware: row["vlanAware"] === true,
    mtu: number(row, "mtu"),
    addresses: texts(row["addresses"], "addresses"),
    ports: texts(row["ports"], "ports"),
  };
}

function decodeQemu(json: unknown): NonNullable<NodeFacts["qemu"]> {
  const row = fields(json, "qemu");
  const flags = row["cpuFlags"] === undefined ? undefined : fields(row["cpuFlags"], "cpuFlags");
  const cpuFlags: CpuFlagFacts | undefined = flags && {
    understood: texts(flags["understood"], "understood"),
    tcg: texts(flags["tcg"], "tcg"),
    kvm: texts(flags["kvm"], "kvm"),
  };
  return {
    version: text(row, "version"),
    binary: optionalText(row, "binary"),
    machines: texts(row["machines"], "machines"),
    ...given({ cpuFlags }),
  };
}

function decodeCapability(row: Row): Capability {
  return {
    name: text(row, "name"),
    available: row["available"] === true,
    detail: optionalText(row, "detail"),
    ...(row["fix"] === undefined ? {} : { fix: text(row, "fix") }),
  };
}
