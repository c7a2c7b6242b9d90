// Guest memory: plain, spread over NUMA nodes, on huge pages, and in modules that can be plugged while it runs.
import { refused } from "../../../request/failures.ts";
import { readVmProperty, memoryMiB } from "../../config/vm-properties.ts";
import type { NumaNode } from "../../config/property-types.ts";
import type { VmValues } from "../../config/vm-config.ts";
import type { Build } from "../build.ts";
import { readCpu } from "./cpu.ts";
import type { HostFacts } from "../host-facts.ts";
import { hugepageSize } from "./hugepages.ts";
import { device, type DeviceOptions } from "../text/option-text.ts";

const MAX_NUMA = 8;
const STATIC_MIB = 1024;
const MAX_MODULE_SIZES = 8;
const MODULES_PER_SIZE = 32;
const MOST_MIB = 4 * 1024 * 1024;

/** A pluggable memory module. */
export interface MemoryModule {
  readonly name: string;
  readonly sizeMiB: number;
  readonly node: number;
  /** Memory of the guest with this module and all before it. */
  readonly totalMiB: number;
}

export function addMemory(build: Build, virtiofs: boolean): void {
  const { values, cmd } = build;
  const memory = memoryMiB(values["memory"]);
  const hotplug = build.hotplug.has("memory");
  let staticMiB = memory;
  if (hotplug) {
    staticMiB = checkHotplug(build, memory);
    cmd.push("-m", `size=${staticMiB},slots=255,maxmem=${maxMemoryMiB(values, build.host)}M`);
  } else {
    cmd.push("-m", String(memory));
  }
  const numa = build.flag("numa") === true;
  if (values["hugepages"] !== undefined && !numa) throw refused("numa needs to be enabled to use hugepages");
  if (hotplug && virtiofs) throw refused("Memory hotplug does not work in combination with virtio-fs.");
  if (numa) addNumaNodes(build, staticMiB, virtiofs);
  else if (virtiofs) {
    cmd.push("-object", `memory-backend-memfd,id=virtiofs-mem,size=${memory}M,share=on`);
    build.machineFlags.push("memory-backend=virtiofs-mem");
  }
  if (!hotplug) return;
  for (const module of memoryModules(values, memory)) {
    cmd.push("-object", memoryObject(build, `mem-${module.name}`, module.sizeMiB));
    cmd.push("-device", moduleText(module));
    if (module.totalMiB > memory)
      throw refused(`memory size (${memory}) must be aligned to ${module.sizeMiB} for hotplugging`);
  }
}

/** The modules that bring a guest with memory hotplug to its size; sizes double every 32 modules. */
export function memoryModules(values: VmValues, memoryMiB_: number): MemoryModule[] {
  let total = staticMemoryMiB(values);
  let sizeMiB = values["hugepages"] === "1024" ? 1024 : 512;
  const modules: MemoryModule[] = [];
  const nodes = numaNodeIds(values);
  for (let step = 0; step < MAX_MODULE_SIZES; step++) {
    for (let index = 0; index < MODULES_PER_SIZE; index++) {
      if (total >= memoryMiB_) return modules;
      total += sizeMiB;
      const node = nodes[index % nodes.length] ?? 0;
      modules.push({ name: `dimm${modules.length}`, sizeMiB, node, totalMiB: total });
    }
    sizeMiB *= 2;
  }
  return modules;
}

/** The device of a memory module; its memory is the object `mem-<name>`. */
export function moduleDevice(module: MemoryModule): DeviceOptions {
  return device("pc-dimm", ["id", module.name], ["memdev", `mem-${module.name}`], ["node", module.node]);
}

/** The most memory that plugging may reach, from the address bits the guest sees. */
export function maxMemoryMiB(values: VmValues, host: HostFacts): number {
  const cpu = readCpu(values);
  const hostBits = host.physBits ?? 36;
  const given = cpu?.["phys-bits"];
  let bits: number;
  if (given !== undefined) bits = given === "host" ? hostBits : Number(given);
  else bits = cpu?.cputype === "host" || cpu?.cputype === "max" ? hostBits : Math.min(hostBits, 40);
  // Odd widths have a lower limit, and QEMU needs room of its own: half of what the bits allow, in MiB.
  return Math.min(2 ** (bits - (bits % 2) - 21), MOST_MIB);
}

function moduleText({ name, node }: MemoryModule): string {
  return `pc-dimm,id=${name},memdev=mem-${name},node=${node}`;
}

export function staticMemoryMiB(values: VmValues): number {
  const sockets = Number(values["sockets"] ?? 1);
  return values["hugepages"] === "1024" ? STATIC_MIB * sockets : STATIC_MIB;
}

function checkHotplug(build: Build, memory: number): number {
  const { values } = build;
  if (build.flag("numa") !== true) throw refused("NUMA needs to be enabled for memory hotplug");
  const most = maxMemoryMiB(values, build.host);
  if (memory > most) throw refused(`Total memory is bigger than ${most}MB`);
  if (customNodes(values).length > 0)
    throw refused("cannot enable memory hotplugging with custom NUMA topology");
  const staticMiB = staticMemoryMiB(values);
  if (memory < staticMiB) throw refused(`minimum memory must be ${staticMiB}MB`);
  return staticMiB;
}

export function customNodes(values: VmValues): { readonly index: number; readonly node: NumaNode }[] {
  const nodes: { index: number; node: NumaNode }[] = [];
  for (let index = 0; index < MAX_NUMA; index++) {
    const text = values[`numa${index}`];
    if (text !== undefined) nodes.push({ index, node: readVmProperty("numaN", text, `numa${index}`) });
  }
  return nodes;
}

function numaNodeIds(values: VmValues): number[] {
  const custom = customNodes(values).map(({ index }) => index);
  if (custom.length > 0) return custom;
  return Array.from({ length: Number(values["sockets"] ?? 1) }, (_, index) => index);
}

function addNumaNodes(build: Build, staticMiB: number, virtiofs: boolean): void {
  const { values, cmd } = build;
  const name = (index: number) => (virtiofs ? `virtiofs-mem${index}` : `ram-node${index}`);
  const custom = customNodes(values);
  let total = 0;
  for (const { index, node } of custom) {
    if (node.memory === undefined || node.memory === 0)
      throw refused(`missing NUMA node${index} memory value`);
    total += node.memory;
    let object = memoryObject(build, name(index), node.memory);
    if (node.hostnodes !== undefined) {
      const hostNodes = checkedHostNodes(node.hostnodes, build.host);
      if (node.policy === undefined)
        throw refused(`you need to define a policy for hostnode ${hostNodes.join(",")}`);
      // QEMU takes a list by repeating the key; PVE's comma only ever works for one range.
      object += `,host-nodes=${hostNodes.join(build.stock ? ",host-nodes=" : ",")},policy=${node.policy}`;
    } else if (values["hugepages"] !== undefined) {
      throw refused("numa hostnodes need to be defined to use hugepages");
    }
    cmd.push("-object", object);
    const cpus = ranges(node.cpus).map(([first, last]) => (last === undefined ? first : `${first}-${last}`));
    cmd.push("-numa", `node,nodeid=${index},cpus=${cpus.join(",cpus=")},memdev=${name(index)}`);
  }
  if (total > 0 && total !== staticMiB)
    throw refused("total memory for NUMA nodes must be equal to vm static memory");
  if (custom.length > 0) return;
  const { sockets } = build;
  const cores = build.count("cores", 1);
  for (let index = 0; index < sockets; index++) {
    if (values["hugepages"] !== undefined && !build.host.numaNodes.includes(index))
      throw refused(`host NUMA node${index} doesn't exist`);
    const first = cores * index;
    const cpus = cores > 1 ? `${first}-${first + cores - 1}` : String(first);
    // As many digits as PVE prints where the memory does not divide.
    const share = Number((staticMiB / sockets).toPrecision(15));
    cmd.push("-object", memoryObject(build, name(index), share));
    cmd.push("-numa", `node,nodeid=${index},cpus=${cpus},memdev=${name(index)}`);
  }
}

function memoryObject(build: Build, id: string, sizeMiB: number): string {
  if (build.values["hugepages"] !== undefined) {
    const pages = hugepageSize(build.values, build.host, sizeMiB);
    return `memory-backend-file,id=${id},size=${sizeMiB}M,mem-path=${build.input.paths.hugepages(pages)},share=on,prealloc=yes`;
  }
  if (id.startsWith("virtiofs-mem")) return `memory-backend-memfd,id=${id},size=${sizeMiB}M,share=on`;
  return `memory-backend-ram,id=${id},size=${sizeMiB}M`;
}

function checkedHostNodes(text: string, host: HostFacts): string[] {
  const sets = ranges(text);
  for (const [first, last] of sets) {
    for (let node = first; node <= (last ?? first); node++) {
      if (!host.numaNodes.includes(node)) throw refused(`host NUMA node${node} doesn't exist`);
    }
  }
  return sets.map(([first, last]) => (last === undefined ? String(first) : `${first}-${last}`));
}

function ranges(text: string): (readonly [number, number | undefined])[] {
  return text.split(";").map((part) => {
    const match = /^\s*(\d+)(?:-(\d+))?\s*$/.exec(part);
    if (match === null) throw refused(`invalid range: ${part}`);
    const first = Number(match[1]);
    const last = match[2] === undefined ? undefined : Number(match[2]);
    if (last !== undefined && last < first) throw refused(`invalid range: ${part} (${last} < ${first})`);
    return [first, last] as const;
  });
}
