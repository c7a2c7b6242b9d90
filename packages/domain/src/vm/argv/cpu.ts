// The `-cpu` option: model, flags by guest system and host, and what overrides what.
import type { CpuOptions } from "../property-types.ts";
import { readVmProperty } from "../vm-properties.ts";
import type { VmValues } from "../vm-config.ts";
import type { Build } from "./build.ts";
import {
  builtinCpuTypes,
  cpuModels32bit,
  cpuModelVendors,
  defaultCpuModels,
  replacedCpuModels,
  tcgStandIns,
} from "./cpu-models.ts";
import type { CustomCpuModel, HostFacts } from "./host-facts.ts";
import { device, refuse, type DeviceOptions } from "./option-text.ts";

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

/** Flags a VM may set by itself; others need a CPU model of the cluster. */
export const VM_CPU_FLAGS = [
  "nested-virt",
  "md-clear",
  "pcid",
  "spec-ctrl",
  "ssbd",
  "ibpb",
  "virt-ssbd",
  "amd-ssbd",
  "amd-no-ssb",
  "pdpe1gb",
  "hv-tlbflush",
  "hv-evmcs",
  "aes",
] as const;

const PVE = "set by PVE;";
const WINDOWS_AUTO = "automatic Hyper-V enlightenment for Windows";

/** The value of `-cpu`. */
export function cpuOption(build: Build, demands: CpuDemands): string {
  const cpu = readCpu(build.values);
  const { model, custom, builtinFlags } = resolveModel(cpu?.cputype, build);
  const flags = mergeFlags(
    [
      guestFlags(build, model),
      build.kvm ? hyperVFlags(build, cpu, custom, demands.gpuPassthrough) : new Map(),
      parseFlags(builtinFlags, "set by builtin CPU model"),
      parseFlags(custom?.flags, "set by custom CPU model"),
      parseFlags(cpu?.flags, "manually set for VM"),
      forcedFlags(build, model, cpu?.hidden ?? custom?.hidden ?? demands.hideKvm),
    ],
    build,
  );
  const level = cpu?.level ?? custom?.level;
  const text = [
    model,
    ...(level === undefined ? [] : [`level=${level}`]),
    ...flags,
    ...physBits(build, cpu, custom),
  ];
  return text.join(",");
}

/** One vCPU plugged after the first, as `-device`. */
export function cpuDevice(build: Build, id: number): DeviceOptions {
  if (build.arch !== "x86_64") throw refuse("Hotplug of non x86_64 CPU not yet supported");
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
  if (cputype === undefined) return { model: defaultCpuModels[build.arch][build.kvm ? "kvm" : "tcg"] };
  const builtin = builtinCpuTypes[cputype];
  if (builtin !== undefined) return { model: builtin.model, builtinFlags: builtin.flags };
  if (cputype.startsWith("custom-")) {
    const custom = customModel(build.host, cputype.slice("custom-".length));
    const reported = custom["reported-model"] ?? "kvm64";
    return { model: standIn(replacedCpuModels[reported] ?? reported), custom };
  }
  if (!cpuModelVendors.has(cputype) && build.arch === "x86_64")
    throw refuse(`Built-in cputype '${cputype}' is not defined (missing 'custom-' prefix?)`);
  return { model: standIn(replacedCpuModels[cputype] ?? cputype) };
}

function customModel(host: HostFacts, name: string): CustomCpuModel {
  const model = Object.hasOwn(host.customCpuModels, name) ? host.customCpuModels[name] : undefined;
  if (model === undefined) throw refuse(`Custom cputype '${name}' not found`);
  return model;
}

/** What a guest system or a model needs regardless of the configuration. */
function guestFlags(build: Build, model: string): FlagSet {
  const flags: FlagSet = new Map();
  const set = (name: string, op: "+" | "-", reason: string) =>
    flags.set(name, { op, reason: `${PVE} ${reason}` });
  const x86 = build.arch === "x86_64";
  if (model === "kvm64" && x86) set("lahf_lm", "+", "to support Windows 8.1+");
  if (build.values["ostype"] === "solaris") set("x2apic", "-", "incompatible with Solaris");
  if (model === "kvm64" || model === "kvm32")
    set("sep", "+", "to support Windows 8+ and improve Windows XP+");
  if (model.startsWith("Opteron")) set("rdtscp", "-", "broken on AMD Opteron");
  if (!build.kvm || !x86) return flags;
  if (build.since(2, 3)) {
    set("kvm_pv_unhalt", "+", "to improve Linux guest spinlock performance");
    set("kvm_pv_eoi", "+", "to improve Linux guest interrupt performance");
  }
  if (build.windows < 11) return flags;
  if (build.knows("cet-flags")) {
    set("cet-ss", "-", "Windows 11 with VBS hangs with it");
    set("cet-ibt", "-", "Windows 11 with VBS hangs with it");
  }
  if (nestsOnIntel(build, model) && !build.guard(11, 0, 2) && build.knows("vmx-mbec"))
    set("vmx-mbec", "-", "VBS needs enlightened VMCS with it");
  return flags;
}

/** Guests that see VMX: Windows 11 then runs its own hypervisor. */
function nestsOnIntel(build: Build, model: string): boolean {
  return (model === "host" || model === "max") && build.host.cpuVendor === "GenuineIntel";
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
  const model = resolveModel(cpu?.cputype, build).model;
  // It makes up for MBEC, and KVM refuses it where nesting is off: only where QEMU has both.
  if (windows >= 11 && nestsOnIntel(build, model) && build.knows("vmx-mbec") && build.guard(11, 0, 2))
    set("hv_evmcs", undefined, `${WINDOWS_AUTO} 11 and higher`);
  return flags;
}

function forcedFlags(build: Build, model: string, hideKvm: boolean): FlagSet {
  const flags: FlagSet = new Map();
  if (model !== "host" && build.kvm && build.arch === "x86_64")
    flags.set("enforce", { op: "", reason: "error if requested CPU settings not available" });
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
function mergeFlags(sets: readonly FlagSet[], build: Build): string[] {
  const merged: FlagSet = new Map();
  for (const set of sets) {
    for (const [given, flag] of set) {
      const name = given === "nested-virt" ? nestedFlag(build) : given;
      if (name === undefined) continue;
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
  return [...merged]
    .toSorted(([a], [b]) => (a < b ? -1 : 1))
    .map(([name, { op, value }]) => `${op}${name}${value === undefined ? "" : `=${value}`}`);
}

function nestedFlag(build: Build): string | undefined {
  const name = ["svm", "vmx"].find((flag) => build.host.cpuFlags.has(flag));
  if (name === undefined)
    build.warnings.push("ignoring 'nested-virt' CPU flag - unable to resolve from host CPU flags");
  return name;
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
