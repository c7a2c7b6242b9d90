// Configuration and host facts -> the command line of QEMU, as one pure function.
import { refused } from "../../request/failures.ts";
import { Build } from "./build.ts";
import type { CommandInput, QemuCommand } from "./command-input.ts";
import { addConfidential, confidentialKind } from "./processor/confidential.ts";
import { cpuDevice, cpuOption } from "./processor/cpu.ts";
import { addDisplay, addSpice, chooseDisplay, isSerialDisplay, type Display } from "./device/display.ts";
import { addDrives } from "./block/drives.ts";
import { addFirmware } from "./machine/firmware.ts";
import { addAccelerator, addFrame, guestUuid } from "./machine/frame.ts";
import { addHostPci, type HostPciResult } from "./device/host-pci.ts";
import { legacyPath } from "./block/legacy-drive.ts";
import { addMemory } from "./processor/memory.ts";
import { addMicrovm } from "./machine/microvm.ts";
import { addNets } from "./device/network.ts";
import { device, deviceText } from "./text/option-text.ts";
import { addressProperties } from "./device/pci-address.ts";
import {
  addAgent,
  addAudio,
  addBalloon,
  addParallelPorts,
  addPointer,
  addRng,
  addSerialPorts,
  addSharedMemory,
  addTpm,
  addVirtiofs,
  addWatchdog,
  hasVirtiofs,
} from "./device/peripherals.ts";
import { q35Devices } from "./device/q35-devices.ts";
import { splitArguments } from "./text/split-arguments.ts";
import { addTimers } from "./machine/timer.ts";
import { addUsbControllers, addUsbDevices } from "./device/usb.ts";
import { atLeast, parseVersion } from "./machine/versions.ts";
import { readVmProperty } from "../config/vm-properties.ts";

export function qemuCommand(input: CommandInput): QemuCommand {
  const build = new Build(input);
  if (build.machine.base === "microvm") return addMicrovm(build);
  const confidential = confidentialKind(build);
  addFrame(build);
  addFirmware(build, confidential);
  if (build.q35) addQ35Devices(build);
  addVersionFixups(build);
  const vmgenid = build.values["vmgenid"];
  // 0 switches it off.
  if (vmgenid !== undefined && vmgenid !== "0") build.devices.push("-device", `vmgenid,guid=${vmgenid}`);
  addUsbControllers(build);
  const configured = chooseDisplay(build);
  addPointer(build, configured);
  const pci = addHostPci(build);
  // A passed-through graphics card replaces the emulated one nobody asked for.
  const display =
    pci.gpuPassthrough && build.values["vga"] === undefined ? { ...configured, type: "none" } : configured;
  addUsbDevices(build);
  addSerialPorts(build);
  addParallelPorts(build);
  addAudio(build);
  addTpm(build);
  addCpus(build);
  build.cmd.push("-nodefaults", "-boot", bootOption(build, display));
  if (build.flag("acpi") === false) build.machineFlags.push("acpi=off");
  if (build.flag("reboot") === false) build.cmd.push("-no-reboot");
  addDisplay(build, display);
  addTimers(build);
  const cpu = build.options.cpu ?? cpuOption(build, pci);
  build.cmd.push("-cpu", cpu);
  addMemory(build, hasVirtiofs(build));
  if (build.flag("freeze") === true || build.options.paused === true) build.cmd.push("-S");
  const keyboard = build.values["keyboard"];
  if (keyboard !== undefined) build.cmd.push("-k", keyboard);
  addAgent(build);
  addRng(build);
  addSpice(build, display);
  addBalloon(build);
  addWatchdog(build);
  addIscsi(build);
  addDrives(build);
  addNets(build);
  addSharedMemory(build);
  addBridges(build, pci.legacyIgd);
  const machine = addMachine(build, display);
  addConfidential(build);
  if (build.flag("allow-ksm") === false) build.machineFlags.push("mem-merge=off");
  addVirtiofs(build);
  return finish(build, { machine, cpu, pci });
}

function finish(
  build: Build,
  { machine, cpu, pci }: { readonly machine: string; readonly cpu: string; readonly pci: HostPciResult },
): QemuCommand {
  const { cmd } = build;
  cmd.push(...build.devices);
  if (build.rtcFlags.length > 0) cmd.push("-rtc", build.rtcFlags.join(","));
  cmd.push("-machine", build.machineFlags.join(","));
  const vmstate = build.values["vmstate"];
  if (vmstate !== undefined && !build.stock) {
    const state = build.input.volumes(vmstate, { key: "vmstate", drive: { file: vmstate } });
    cmd.push("-loadstate", legacyPath(state));
  }
  if (build.isTemplate && !build.stock) cmd.push("-snapshot");
  if (build.options.incoming === true) cmd.push("-incoming", "defer");
  cmd.push(...splitArguments(build.values["args"] ?? ""));
  return {
    argv: cmd,
    warnings: build.warnings,
    notes: build.notes,
    machine,
    cpu,
    uuid: guestUuid(build),
    accelerator: build.kvm ? "kvm" : "tcg",
    pciDevices: pci.chosen,
  };
}

/** The menu makes SeaBIOS wait 2.5 s for a key, so it is only there where somebody could press one. */
function bootOption(build: Build, display: Display): string {
  const rest = "strict=on,reboot-timeout=1000";
  if (!build.stock) return `menu=on,${rest},splash=/usr/share/qemu-server/bootsplash.jpg`;
  const hasScreen = display.type !== "none" && !isSerialDisplay(display);
  return `menu=${hasScreen ? "on" : "off"},${rest}`;
}

function addQ35Devices(build: Build): void {
  const modern = build.since(4, 0);
  if (build.stock) for (const each of q35Devices(modern)) build.addDevice(each);
  else build.devices.push("-readconfig", `/usr/share/qemu-server/pve-q35${modern ? "-4.0" : ""}.cfg`);
}

/**
 * QEMU 6.1 moved PCI hotplug of q35 to ACPI, which renumbers slots and so renames a Linux guest's NICs. VMs made
 * before that keep the old way.
 */
function addVersionFixups(build: Build): void {
  const type = build.machine.options.type;
  const unversioned = type === undefined || /^(?:pc|q35|virt)$/.test(type);
  if (!unversioned || !build.q35 || build.values["ostype"] !== "l26") return;
  const meta = build.values["meta"];
  const created = parseVersion(
    (meta === undefined ? undefined : readVmProperty("meta", meta, "meta")["creation-qemu"]) ?? "",
  );
  if (created !== undefined && atLeast(created, 6, 1)) return;
  if (!build.since(6, 1)) return;
  build.cmd.push("-global", "ICH9-LPC.acpi-pci-hotplug-with-bridge-support=off");
}

function addCpus(build: Build): void {
  const sockets = build.sockets;
  const cores = build.count("cores", 1);
  const most = sockets * cores;
  const vcpus = build.count("vcpus", most);
  if (most > build.host.cpus) throw refused(`MAX ${build.host.cpus} vcpus allowed per VM on this node`);
  const topology = `sockets=${sockets},cores=${cores},maxcpus=${most}`;
  if (!build.hotplug.has("cpu") || !build.since(2, 7)) {
    build.cmd.push("-smp", `${vcpus},${topology}`);
    return;
  }
  build.cmd.push("-smp", `1,${topology}`);
  for (let id = 2; id <= vcpus; id++) build.cmd.push("-device", deviceText(cpuDevice(build, id)));
}

function addIscsi(build: Build): void {
  const initiator = build.host.iscsiInitiator;
  if (initiator !== undefined) build.devices.push("-iscsi", `initiator-name=${initiator}`);
}

/** Bridges go in front of the devices on them; the highest number last, as it may hang on a lower one. */
function addBridges(build: Build, legacyIgd: boolean): void {
  const used = new Set(build.pci.used);
  if (used.has(4)) used.add(1);
  if (!build.q35) {
    if (build.since(2, 3)) for (const bus of [1, 2]) used.add(bus);
    if (build.values["scsihw"] === "virtio-scsi-single") used.add(3);
  }
  const bridges: string[] = [];
  for (const bus of [...used].toSorted((a, b) => a - b)) {
    if (bus === 0 || (build.q35 && bus < 4)) continue;
    const slot = bus === 2 && legacyIgd ? "pci.2-igd" : `pci.${bus}`;
    bridges.push(
      "-device",
      deviceText(
        device(
          "pci-bridge",
          ["id", `pci.${bus}`],
          ["chassis_nr", bus],
          ...addressProperties(build.pci.addressOf(slot)),
        ),
      ),
    );
  }
  const after = build.q35 ? (build.stock ? q35Devices(build.since(4, 0)).length * 2 : 2) : 0;
  build.devices.splice(after, 0, ...bridges);
}

/** Flags of `-machine` and what belongs to them; returns the machine type. */
function addMachine(build: Build, display: Display): string {
  const { machineFlags, machine } = build;
  addAccelerator(build);
  addPowerStates(build);
  // SeaBIOS with SMM hangs without a graphics card.
  const seabios = (build.values["bios"] ?? "seabios") === "seabios";
  if (seabios && machine.base !== "virt" && (display.type === "none" || isSerialDisplay(display)))
    machineFlags.push("smm=off");
  const plain = machine.type.replace(/\+pve\d+$/, "");
  const type = build.stock ? plain : `${plain}+pve${build.requiredRevision}`;
  machineFlags.push(`type=${type}`);
  const { viommu, "aw-bits": bits } = machine.options;
  const width =
    bits === undefined || (viommu === "virtio" && !build.knows("viommu-aw-bits")) ? undefined : bits;
  if (viommu === "intel") {
    const iommu = device("intel-iommu", ["intremap", true], ["caching-mode", true], ["aw-bits", width]);
    build.devices.unshift("-device", deviceText(iommu));
    machineFlags.push("kernel-irqchip=split");
  } else if (viommu === "virtio") {
    build.addDevice(device("virtio-iommu-pci", ["aw-bits", width]));
  }
  return type;
}

/** Sleep states are off since 9.2+pve1: guests that went to sleep looked hung. */
function addPowerStates(build: Build): void {
  if (build.machine.base === "virt") return;
  const object = build.q35 ? "ICH9-LPC" : "PIIX4_PM";
  const enabled = !build.guard(9, 2, 1);
  const options = build.machine.options;
  for (const state of ["s3", "s4"] as const) {
    if (!(options[`enable-${state}`] ?? enabled)) build.cmd.push("-global", `${object}.disable_${state}=1`);
  }
}
