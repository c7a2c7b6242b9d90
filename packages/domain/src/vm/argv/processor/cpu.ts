// The `-cpu` option: model, flags by guest system and host, and what overrides what.
import { refused } from "../../../request/failures.ts";
import type { CpuOptions } from "../../config/property-types.ts";
import { readVmProperty } from "../../config/vm-properties.ts";
import type { VmValues } from "../../config/vm-config.ts";
import type { Build } from "../build.ts";
import {
  builtinCpuTypes,
  cpuModels32bit,
  cpuModelsOf,
  cpuModelVendors,
  defaultCpuModels,
  replacedCpuModels,
  tcgStandIns,
} from "./cpu-models.ts";
import type { CustomCpuModel, HostFacts } from "../host-facts.ts";
import { device, type DeviceOptions } from "../text/option-text.ts";

/** What passed-through devices ask of the CPU. */
export interface CpuDemands {
  readonly hideKvm: boolean;
  readonly gpuPassthrough: boolean;
}

interface Flag {
  readonly op: "" | "+" | "-";
  readonly value?: string;
  readonly reason: string;
}

type FlagSet = Map<string, Flag>;

const INTEL = "GenuineIntel";
const PVE = "set by PVE;";
const WINDOWS_AUTO = "automatic Hyper-V enlightenment for Windows";

/** The value of `-cpu`. */
export function cpuOption(build: Build, demands: CpuDemands): string {
  const cpu = readCpu(build.values);
  const { model, custom, builtinFlags } = resolveModel(cpu?.cputype, build);
  const flags = mergeFlags(
    [
      guestFlags(build, model),
      build.kvm && isX86(build) ? hyperVFlags(build, cpu, custom, demands.gpuPassthrough) : new Map(),
      parseFlags(builtinFlags, "set by builtin CPU model"),
      parseFlags(custom?.flags, "set by custom CPU model"),
      parseFlags(cpu?.flags, "manually set for VM"),
      forcedFlags(build, model, cpu?.hidden ?? (custom?.hidden === true || demands.hideKvm)),
    ],
    build,
  );
  const text = [model, ...cpuLevel(build, cpu?.level ?? custom?.level), ...printFlags(flags)];
  text.push(...physBits(build, cpu, custom));
  if (model === "qemu64" || model === "kvm64") warnOfWideAddresses(build, flags, cpu, custom);
  return text.join(",");
}

function isX86(build: Build): boolean {
  return build.arch === "x86_64";
}

function cpuLevel(build: Build, level: number | undefined): string[] {
  if (level === undefined) return [];
  if (isX86(build)) return [`level=${level}`];
  build.warnings.push(`CPU 'level' property is ignored for architecture '${build.arch}'`);
  return [];
}

/** One vCPU plugged after the first, as `-device`. */
export function cpuDevice(build: Build, id: number): DeviceOptions {
  if (build.arch !== "x86_64") throw refused("Hotplug of non x86_64 CPU not yet supported");
  const { model } = resolveModel(readCpu(build.values)?.cputype, build);
  const cores = build.count("cores", 1);
  const core = (id - 1) % cores;
  return device(
    `${model}-x86_64-cpu`,
    ["id", `cpu${id}`],
    ["socket-id", Math.floor((id - 1 - core) / cores)],
    ["core-id", core],
    ["thread-id", 0],
  );
}

/** OVMF for 32-bit guests does not exist. */
export function isCpu32bit(build: Build): boolean {
  return (
    build.arch === "x86_64" && cpuModels32bit.has(resolveModel(readCpu(build.values)?.cputype, build).model)
  );
}

export function readCpu(values: VmValues): CpuOptions | undefined {
  return values["cpu"] === undefined ? undefined : readVmProperty("cpu", values["cpu"], "cpu");
}

function resolveModel(
  cputype: string | undefined,
  build: Build,
): { readonly model: string; readonly custom?: CustomCpuModel; readonly builtinFlags?: string } {
  const standIn = (model: string): string => {
    const other = build.kvm || !build.stock ? undefined : tcgStandIns[model];
    if (other !== undefined) {
      const note = `CPU type '${model}' needs KVM: the guest sees '${other}'`;
      if (!build.notes.includes(note)) build.notes.push(note);
    }
    return other ?? model;
  };
  const checked = (model: string): string => {
    if (cpuModelsOf(build.arch, build.host.arch).has(model)) return model;
    throw refused(`CPU model '${model}' does not exist for configured vCPU architecture '${build.arch}'`);
  };
  if (cputype === undefined) return { model: defaultCpuModels[build.arch][build.kvm ? "kvm" : "tcg"] };
  const builtin = isX86(build) ? builtinCpuTypes[cputype] : undefined;
  if (builtin !== undefined) return { model: builtin.model, builtinFlags: builtin.flags };
  if (cputype.startsWith("custom-")) {
    const custom = customModel(build.host, cputype.slice("custom-".length));
    const reported = custom["reported-model"] ?? "kvm64";
    return { model: standIn(checked(replacedCpuModels[reported] ?? reported)), custom };
  }
  return { model: standIn(checked(replacedCpuModels[cputype] ?? cputype)) };
}

function customModel(host: HostFacts, name: string): CustomCpuModel {
  const model = Object.hasOwn(host.customCpuModels, name) ? host.customCpuModels[name] : undefined;
  if (model === undefined) throw refused(`Custom cputype '${name}' not found`);
  return model;
}

/** What a guest system or a model needs regardless of the configuration. */
function guestFlags(build: Build, model: string): FlagSet {
  const flags: FlagSet = new Map();
  const set = (name: string, op: "+" | "-", reason: string) =>
    flags.set(name, { op, reason: `${PVE} ${reason}` });
  const x86 = isX86(build);
  if (model === "kvm64" && x86) set("lahf_lm", "+", "to support Windows 8.1+");
  if (build.values["ostype"] === "solaris") set("x2apic", "-", "incompatible with Solaris");
  if (model === "kvm64" || model === "kvm32")
    set("sep", "+", "to support Windows 8+ and improve Windows XP+");
  if (model.startsWith("Opteron")) set("rdtscp", "-", "broken on AMD Opteron");
  if (!x86) return flags;
  if (build.kvm && build.since(2, 3)) {
    set("kvm_pv_unhalt", "+", "to improve Linux guest spinlock performance");
    set("kvm_pv_eoi", "+", "to improve Linux guest interrupt performance");
  }
  if (build.windows >= 11 && build.qemuHas("cet-flags")) {
    for (const name of ["cet-ibt", "cet-ss"])
      set(name, "-", "to avoid issues with certain Windows configurations like VBS");
  }
  // Only the host's own CPU shows it; guests from before it came keep the CPU they had.
  if (model === "host" && build.qemuHas("vmx-mbec") && !build.since(11, 0))
    set("vmx-mbec", "-", "for backwards compatibility with older kernel and QEMU");
  return flags;
}

function hyperVFlags(
  build: Build,
  cpu: CpuOptions | undefined,
  custom: CustomCpuModel | undefined,
  gpuPassthrough: boolean,
): FlagSet {
  const flags: FlagSet = new Map();
  const { windows } = build;
  if (windows < 6 || (build.values["bios"] === "ovmf" && windows < 8)) return flags;
  const set = (name: string, value?: string, reason = WINDOWS_AUTO) =>
    flags.set(name, value === undefined ? { op: "", reason } : { op: "", value, reason });
  const vendor = cpu?.["hv-vendor-id"] ?? custom?.["hv-vendor-id"];
  if (vendor !== undefined) set("hv_vendor_id", vendor, "custom hv_vendor_id set");
  else if (gpuPassthrough) set("hv_vendor_id", "proxmox", "NVIDIA workaround for GPU passthrough");
  if (build.since(2, 3)) {
    set("hv_spinlocks", "0x1fff");
    set("hv_vapic");
    set("hv_time");
  } else {
    set("hv_spinlocks", "0xffff");
  }
  if (build.since(2, 6)) for (const name of ["hv_reset", "hv_vpindex", "hv_runtime"]) set(name);
  if (windows >= 7) {
    const reason = `${WINDOWS_AUTO} 7 and higher`;
    set("hv_relaxed", undefined, reason);
    if (build.since(2, 12)) for (const name of ["hv_synic", "hv_stimer"]) set(name, undefined, reason);
    if (build.since(3, 1)) set("hv_ipi", undefined, reason);
  }
  // It makes up for MBEC: guests that use it for their own protection freeze without.
  if (windows >= 11 && build.host.cpuVendor === INTEL && build.qemuHas("vmx-mbec") && build.guard(11, 0, 2))
    set("hv_evmcs", undefined, `${WINDOWS_AUTO} for Windows 11 on Intel host`);
  return flags;
}

function forcedFlags(build: Build, model: string, hideKvm: boolean): FlagSet {
  const flags: FlagSet = new Map();
  if (model !== "host" && build.kvm && isX86(build))
    flags.set("enforce", { op: "", reason: "error if requested CPU settings not available" });
  // Other architectures have neither property.
  if (!isX86(build)) return flags;
  if (hideKvm) flags.set("kvm", { op: "", value: "off", reason: "hide KVM virtualization from guest" });
  const vendor = cpuModelVendors.get(model);
  if (vendor !== undefined && vendor !== "default")
    flags.set("vendor", { op: "", value: vendor, reason: "unknown origin" });
  return flags;
}

function parseFlags(list: string | undefined, reason: string): FlagSet {
  const flags: FlagSet = new Map();
  for (const item of list?.split(";") ?? []) {
    const match = /^([+-])([a-zA-Z0-9\-_.]+)$/.exec(item);
    if (match?.[2] !== undefined) flags.set(match[2], { op: match[1] === "-" ? "-" : "+", reason });
  }
  return flags;
}

/** Later sets win; a flag that changes its meaning is said. */
function mergeFlags(sets: readonly FlagSet[], build: Build): FlagSet {
  const merged: FlagSet = new Map();
  for (const set of sets) {
    for (const [name, flag] of nestedResolved(set, build)) {
      const before = merged.get(name);
      if (before !== undefined) {
        if (before.op === flag.op && before.value === flag.value) {
          merged.set(name, { ...before, reason: `${before.reason} & ${flag.reason}` });
          continue;
        }
        build.warnings.push(
          `warning: CPU flag/setting ${describe(name, flag)} overwrites ${describe(name, before)}`,
        );
      }
      merged.set(name, flag);
    }
  }
  return merged;
}

function printFlags(flags: FlagSet): string[] {
  return [...flags]
    .toSorted(([a], [b]) => (a < b ? -1 : 1))
    .map(([name, { op, value }]) => `${op}${name}${value === undefined ? "" : `=${value}`}`);
}

/** `nested-virt` is whatever the host's CPU calls it; a set that names both means the shorthand. */
function nestedResolved(set: FlagSet, build: Build): FlagSet {
  const nested = set.get("nested-virt");
  if (nested === undefined) return set;
  const resolved = new Map(set);
  resolved.delete("nested-virt");
  const name = ["svm", "vmx"].find((flag) => build.host.cpuFlags.has(flag));
  if (name === undefined) {
    build.warnings.push("ignoring 'nested-virt' CPU flag - unable to resolve from host CPU flags");
    return resolved;
  }
  if (resolved.has(name)) build.warnings.push(`warning: CPU flag 'nested-virt' overrides '${name}'`);
  return resolved.set(name, nested);
}

function describe(name: string, { op, value, reason }: Flag): string {
  return `'${op}${name}${value === undefined ? "" : `=${value}`}' (${reason})`;
}

function physBits(build: Build, cpu: CpuOptions | undefined, custom: CustomCpuModel | undefined): string[] {
  const parts: string[] = [];
  const guest = cpu?.["guest-phys-bits"] ?? custom?.["guest-phys-bits"];
  if (guest !== undefined && build.knows("guest-phys-bits")) parts.push(`guest-phys-bits=${guest}`);
  const bits = cpu?.["phys-bits"] ?? custom?.["phys-bits"];
  if (bits !== undefined) parts.push(bits === "host" ? "host-phys-bits=true" : `phys-bits=${bits}`);
  return parts;
}

/** OVMF maps no more than 40 bits without 1 GiB pages, whatever the guest was promised. */
function warnOfWideAddresses(
  build: Build,
  flags: FlagSet,
  cpu: CpuOptions | undefined,
  custom: CustomCpuModel | undefined,
): void {
  if (build.values["bios"] !== "ovmf" || (flags.get("pdpe1gb")?.op ?? "-") !== "-") return;
  const wide = [custom?.["phys-bits"], cpu?.["phys-bits"]].some(
    (bits) => bits !== undefined && Number(bits === "host" ? (build.host.physBits ?? 0) : bits) > 40,
  );
  if (!wide) return;
  build.warnings.push(
    "OVMF firmware might limit CPU 'phys-bits' to 40 - enable the 'pdpe1gb' CPU flag to avoid this",
  );
}
