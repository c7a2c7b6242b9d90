// The state of one command line while it is put together. `cmd` holds what comes before the devices.
import { refused } from "../../request/failures.ts";
import { readHotplug } from "../config/vm-properties.ts";
import { bootIndexes } from "../config/boot-order.ts";
import { driveKeys } from "../config/keys.ts";
import type { VmValues } from "../config/vm-config.ts";
import type { CommandInput, CommandOptions, Dialect } from "./command-input.ts";
import { guestArch } from "./processor/guest-arch.ts";
import type { GuestArch, HostFacts } from "./host-facts.ts";
import { chooseMachine, type MachineChoice } from "./machine/machine.ts";
import { deviceText, type DeviceOptions } from "./text/option-text.ts";
import { PciBuses } from "./device/pci-address.ts";
import type { QemuFeature } from "./machine/qemu-features.ts";
import { atLeast, isReleaseCandidate, PVE_REVISIONS, windowsVersion } from "./machine/versions.ts";

export class Build {
  readonly input: CommandInput;
  readonly values: VmValues;
  readonly options: CommandOptions;
  readonly dialect: Dialect;
  readonly isTemplate: boolean;
  readonly arch: GuestArch;
  readonly native: boolean;
  readonly kvm: boolean;
  readonly windows: number;
  readonly machine: MachineChoice;
  readonly pci: PciBuses;
  readonly bootIndexes: ReadonlyMap<string, number>;
  readonly hotplug: ReadonlySet<string>;
  readonly cmd: string[] = [];
  readonly devices: string[] = [];
  readonly machineFlags: string[] = [];
  readonly rtcFlags: string[] = [];
  readonly warnings: string[] = [];
  readonly notes: string[] = [];
  #requiredRevision = 0;

  constructor(input: CommandInput) {
    this.input = input;
    this.options = input.options ?? {};
    this.dialect = this.options.dialect ?? "stock";
    this.isTemplate = input.config["template"] === "1";
    this.values = this.isTemplate ? templateValues(input.config) : input.config;
    this.arch = guestArch(this.values, input.host);
    this.native = this.arch === input.host.arch;
    this.windows = windowsVersion(this.values["ostype"]);
    this.machine = chooseMachine(this.values, this.arch, input.host, this.options, this.dialect);
    if (isReleaseCandidate(input.host.qemuVersion))
      this.warnings.push(
        `warning: Installed QEMU version (${input.host.qemuVersion}) is a release candidate, ignoring version checks`,
      );
    this.kvm = this.#chooseKvm();
    this.pci = new PciBuses(this.arch);
    this.bootIndexes = bootIndexes(this.values);
    this.hotplug = readHotplug(this.values["hotplug"]);
  }

  get host(): HostFacts {
    return this.input.host;
  }

  get vmid(): number {
    return this.input.vmid;
  }

  get q35(): boolean {
    return this.machine.base === "q35";
  }

  get stock(): boolean {
    return this.dialect === "stock";
  }

  /** Real guests always use `-blockdev`; PVE's older machine versions still use `-drive`. */
  get usesBlockdev(): boolean {
    return this.stock || this.since(10, 0);
  }

  /** Whether the guest's hardware layout is of this version or newer. */
  since(major: number, minor: number, pve = 0): boolean {
    return atLeast(this.machine.layout, major, minor, pve);
  }

  /** The same, and the machine type must then say so with its `+pveN`. */
  guard(major: number, minor: number, pve = 0): boolean {
    if (!this.since(major, minor, pve)) return false;
    const highest = PVE_REVISIONS[`${major}.${minor}`] ?? 0;
    if (!this.since(major, minor, highest + 1))
      this.#requiredRevision = Math.max(this.#requiredRevision, pve);
    return true;
  }

  get requiredRevision(): number {
    return this.#requiredRevision;
  }

  /** PVE's own QEMU is always new enough; ours may not be. */
  knows(feature: QemuFeature): boolean {
    return !this.stock || this.host.features.has(feature);
  }

  /** The same for what depends on the version of the QEMU that runs, in PVE too. */
  qemuHas(feature: QemuFeature): boolean {
    return this.host.features.has(feature);
  }

  flag(key: string): boolean | undefined {
    const value = this.values[key];
    return value === undefined ? undefined : value === "1";
  }

  count(key: string, otherwise: number): number {
    const value = Number(this.values[key] ?? 0);
    return value === 0 ? otherwise : value;
  }

  /** `smp` is what sockets were called before there were cores. */
  get sockets(): number {
    return this.count("sockets", this.count("smp", 1));
  }

  addDevice(options: DeviceOptions): void {
    this.devices.push("-device", deviceText(options));
  }

  #chooseKvm(): boolean {
    const wanted = this.flag("kvm") ?? this.native;
    if (!wanted) return false;
    if (this.stock && !this.native) return this.#foreignKvm();
    if (this.host.kvmUsable) return true;
    // Many clients always say kvm=1, without meaning that the guest shall not run at all.
    if (!this.stock)
      throw refused(
        "KVM virtualisation configured, but not available. Either disable in VM configuration or enable in BIOS.",
      );
    this.notes.push("KVM does not work on this node: the guest is emulated by TCG and runs slowly");
    return false;
  }

  /** No CPU runs the code of another kind. PVE's ARM guests are emulated then; its x86 guests demand KVM of their CPU. */
  #foreignKvm(): false {
    const { arch, host } = this;
    if (arch === "x86_64")
      throw refused(
        `kvm is 1, but KVM on node '${host.nodeName}' (${host.arch}) runs no ${arch} guests: set kvm to 0 to emulate it`,
      );
    this.notes.push(`KVM on this ${host.arch} node runs no ${arch} guests: the guest is emulated by TCG`);
    return false;
  }
}

/** A template starts only for backups: nothing but its disks matters. */
function templateValues(config: VmValues): VmValues {
  const kept = ["scsihw", "bios", "name", ...driveKeys];
  return {
    template: "1",
    kvm: "0",
    vga: "none",
    ...Object.fromEntries(Object.entries(config).filter(([key]) => kept.includes(key))),
  };
}
