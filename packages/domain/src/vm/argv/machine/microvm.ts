// The microvm machine: no PCI, no ACPI tables worth the name, boots in a blink. Not a machine type of PVE's API; our
// own API asks for it explicitly. Only virtio devices fit on it.
import { canonicalJson } from "@gpve/contracts/canonical-json.ts";
import { refused } from "../../../request/failures.ts";
import { listDrives } from "../../config/drive.ts";
import { memoryMiB, readVmProperty } from "../../config/vm-properties.ts";
import { driveNodes } from "../block/block-node.ts";
import type { Build } from "../build.ts";
import type { QemuCommand } from "../command-input.ts";
import { cpuOption } from "../processor/cpu.ts";
import { splitDriveKey } from "../block/drive-device.ts";
import { blockContext } from "../block/drives.ts";
import { addAccelerator, addFrame, guestUuid } from "./frame.ts";
import { netdevText, netKeys } from "../device/network.ts";
import { device } from "../text/option-text.ts";
import { addSerialPorts } from "../device/peripherals.ts";

export function addMicrovm(build: Build): QemuCommand {
  if (!build.stock || build.arch !== "x86_64") throw refused("microvm needs an x86_64 guest on a stock QEMU");
  addFrame(build);
  addSerialPorts(build);
  const cpus = build.count("sockets", 1) * build.count("cores", 1);
  if (cpus > build.host.cpus) throw refused(`MAX ${build.host.cpus} vcpus allowed per VM on this node`);
  const cpu = build.options.cpu ?? cpuOption(build, { hideKvm: false, gpuPassthrough: false });
  build.cmd.push("-smp", String(cpus), "-nodefaults", "-display", "none", "-cpu", cpu);
  build.cmd.push("-m", String(memoryMiB(build.values["memory"])));
  if (build.options.paused === true) build.cmd.push("-S");
  addKernel(build);
  if (build.values["balloon"] !== "0") build.addDevice(device("virtio-balloon-device", ["id", "balloon0"]));
  addDisks(build);
  addNics(build);
  addAccelerator(build);
  build.cmd.push(...build.devices);
  build.cmd.push("-machine", "isa-serial=on,type=microvm");
  if (build.options.incoming === true) build.cmd.push("-incoming", "defer");
  return {
    argv: build.cmd,
    warnings: build.warnings,
    notes: build.notes,
    machine: "microvm",
    cpu,
    uuid: guestUuid(build),
    accelerator: build.kvm ? "kvm" : "tcg",
    pciDevices: {},
  };
}

/** QEMU appends to the command line where its devices are. */
function addKernel({ cmd, options }: Build): void {
  if (typeof options.microvm !== "object") return;
  const { kernel, initrd, cmdline } = options.microvm;
  cmd.push("-kernel", kernel);
  if (initrd !== undefined) cmd.push("-initrd", initrd);
  cmd.push("-append", cmdline ?? "console=ttyS0");
}

function addDisks(build: Build): void {
  for (const { key, drive } of listDrives(build.values)) {
    if (splitDriveKey(key).bus !== "virtio") throw refused(`${key}: a microvm has only virtio disks`);
    const nodes = driveNodes(blockContext(build), key, drive);
    build.cmd.push("-object", canonicalJson(nodes.throttleGroup));
    build.devices.push("-blockdev", canonicalJson(nodes.blockdev));
    build.addDevice(
      device(
        "virtio-blk-device",
        ["drive", `drive-${key}`],
        ["id", key],
        ["bootindex", build.bootIndexes.get(key)],
      ),
    );
  }
}

function addNics(build: Build): void {
  for (const key of netKeys(build.values)) {
    const net = readVmProperty("net", build.values[key] ?? "", key);
    if (net.model !== "virtio") throw refused(`${key}: a microvm has only virtio network cards`);
    build.devices.push("-netdev", netdevText(build, key, net));
    build.addDevice(device("virtio-net-device", ["mac", net.macaddr], ["netdev", key], ["id", key]));
  }
}
