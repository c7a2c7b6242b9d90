// Which machine type a VM runs on. Unversioned types follow QEMU unless something pins them: the VM's own pin, a
// saved RAM state, or Windows, which does not stand a machine that changes under it.
import { refused } from "../../../request/failures.ts";
import type { MachineOptions } from "../../config/property-types.ts";
import { readVmProperty } from "../../config/vm-properties.ts";
import type { VmValues } from "../../config/vm-config.ts";
import type { CommandOptions, Dialect } from "../command-input.ts";
import type { GuestArch, HostFacts } from "../host-facts.ts";
import {
  atLeast,
  isReleaseCandidate,
  parseVersion,
  pveRevisionOf,
  windowsVersion,
  type Version,
} from "./versions.ts";

export type MachineBase = "i440fx" | "q35" | "virt" | "microvm";

export interface MachineChoice {
  readonly base: MachineBase;
  /** As QEMU takes it, with PVE's `+pveN` in that dialect until the line is complete. */
  readonly type: string;
  readonly options: MachineOptions;
  /** Which PVE version's device layout the guest gets. */
  readonly layout: Version;
  /** `.pxe` machine types load the network boot code of old releases. */
  readonly oldRoms: boolean;
}

/** What QEMU calls the machines that PVE calls so. */
export const FAMILY: Readonly<Record<string, string>> = { pc: "pc-i440fx", q35: "pc-q35", virt: "virt" };
const OLDEST_QEMU = { major: 6, minor: 0 };
/** The layout of VMs that name no machine version: the newest one this code knows. */
const NEWEST_LAYOUT: Version = { major: 11, minor: 0, pve: 2 };
/** ACPI changed after 5.1 in a way that makes Windows lose its network settings. */
const WINDOWS_BASE_VERSION = "5.1";

export function chooseMachine(
  values: VmValues,
  arch: GuestArch,
  host: HostFacts,
  options: CommandOptions,
  dialect: Dialect,
): MachineChoice {
  const config =
    values["machine"] === undefined ? {} : readVmProperty("machine", values["machine"], "machine");
  checkMachineOptions(config);
  const qemu = qemuVersion(host);
  if (options.microvm !== undefined && options.microvm !== false)
    return { base: "microvm", type: "microvm", options: config, layout: NEWEST_LAYOUT, oldRoms: false };
  const configured = options.machine ?? config.type ?? (arch === "aarch64" ? "virt" : "pc");
  // A saved state names the machine it ran on, but its layout is that of the configuration it was started from.
  const explicit = config.type === undefined ? undefined : machineVersion(config.type);
  const type =
    machineVersion(configured) === undefined
      ? pinned(configured, values, host, options, dialect)
      : configured;
  const withRevision = /\+pve\d+(?:\.pxe)?$/.test(type) ? type : type.replace(/(?:\.pxe)?$/, "+pve0$&");
  const version = machineVersion(withRevision);
  const layout = version ?? { ...qemu, pve: pveRevisionOf(qemu) };
  checkRunnable(withRevision, layout, host, qemu);
  if (dialect === "stock") checkKnown(withRevision.replace(/\+pve.*$/, ""), host);
  // Windows that nobody pinned was installed elsewhere, on the layout of its machine version.
  const oldWindows = options.machineVersion === undefined && windowsVersion(values["ostype"]) > 0;
  return {
    base: baseOf(withRevision),
    type: withRevision.replace(/\.pxe$/, ""),
    options: config,
    layout: dialect === "stock" && explicit === undefined && !oldWindows ? NEWEST_LAYOUT : layout,
    oldRoms: withRevision.endsWith(".pxe"),
  };
}

/** Rules between the parts of `machine`. */
export function checkMachineOptions(machine: MachineOptions): void {
  const bits = machine["aw-bits"];
  if (machine.viommu === "intel") {
    if (!(machine.type ?? "").includes("q35"))
      throw refused("to use Intel vIOMMU please set the machine type to q35");
    if (bits !== undefined && bits !== 39 && bits !== 48)
      throw refused("Intel vIOMMU supports only 39 or 48 bits as address width");
  }
  if (bits !== undefined && machine.viommu === undefined)
    throw refused("cannot set aw-bits if no vIOMMU is configured");
}

/** The version inside a machine type; undefined for `pc`, `q35` and `virt`. */
export function machineVersion(type: string): Version | undefined {
  const match = /^(?:pc(?:-i440fx|-q35)?|virt)-(\d.*)$/.exec(type);
  return match?.[1] === undefined ? undefined : parseVersion(match[1].replace(/\.pxe$/, ""));
}

function pinned(
  type: string,
  values: VmValues,
  host: HostFacts,
  options: CommandOptions,
  dialect: Dialect,
): string {
  const newest = qemuVersion(host);
  const windows = windowsVersion(values["ostype"]) > 0;
  if (dialect === "stock") {
    const version =
      options.machineVersion ?? (windows ? windowsPin(values, newest) : `${newest.major}.${newest.minor}`);
    return `${FAMILY[type] ?? type}-${version}`;
  }
  if (windows) return `${FAMILY[type] ?? type}-${windowsPin(values, newest)}`;
  return `${type}+pve${pveRevisionOf(newest)}`;
}

function windowsPin(values: VmValues, newest: Version): string {
  const meta = values["meta"] === undefined ? {} : readVmProperty("meta", values["meta"], "meta");
  const created = parseVersion(meta["creation-qemu"] ?? "");
  const base =
    created !== undefined && atLeast(created, 9, 1)
      ? `${created.major}.${created.minor}`
      : WINDOWS_BASE_VERSION;
  const wanted = parseVersion(base);
  if (wanted !== undefined && atLeast(newest, wanted.major, wanted.minor)) return base;
  const revision = pveRevisionOf(newest);
  return `${newest.major}.${newest.minor}${revision > 0 ? `+pve${revision}` : ""}`;
}

function checkRunnable(type: string, layout: Version, host: HostFacts, qemu: Version): void {
  if (isReleaseCandidate(host.qemuVersion)) return;
  if (!atLeast(qemu, layout.major, layout.minor)) {
    throw refused(
      `Installed QEMU version '${host.qemuVersion}' is too old to run machine type '${type}', please upgrade node '${host.nodeName}'`,
    );
  }
  const highest = pveRevisionOf(layout);
  if (layout.pve > highest) {
    throw refused(
      `Installed qemu-server (max feature level for ${layout.major}.${layout.minor} is pve${highest}) is too old to run machine type '${type}', please upgrade node '${host.nodeName}'`,
    );
  }
}

function checkKnown(type: string, host: HostFacts): void {
  if (host.machineTypes === undefined || host.machineTypes.has(type)) return;
  throw refused(
    `machine type '${type}' is not known to QEMU ${host.qemuVersion} on node '${host.nodeName}': choose another version in 'machine'`,
  );
}

/** The version of a QEMU that is not there, or does not answer. */
export const NO_QEMU = "0";

function qemuVersion(host: HostFacts): Version {
  if (host.qemuVersion === NO_QEMU)
    throw refused(
      `QEMU cannot be run on node '${host.nodeName}': is it installed? (apt-get install qemu-system-x86)`,
    );
  const version = parseVersion(host.qemuVersion);
  if (version === undefined || !atLeast(version, OLDEST_QEMU.major, OLDEST_QEMU.minor))
    throw refused(`Detected old QEMU binary ('${host.qemuVersion}', at least 6.0 is required)`);
  return { ...version, pve: 0 };
}

function baseOf(type: string): MachineBase {
  if (type.includes("q35")) return "q35";
  return type.startsWith("virt") ? "virt" : "i440fx";
}
