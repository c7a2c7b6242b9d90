// QMP arguments to plug and unplug one device. They come from the same code as the command line, so a plugged device
// is the one the guest will have after its next start.
import type { Drive, NetDevice, UsbDevice } from "../../config/property-types.ts";
import { driveNodes, topNodeName, throttleGroupId } from "../block/block-node.ts";
import { Build } from "../build.ts";
import type { CommandInput } from "../command-input.ts";
import { cpuDevice } from "../processor/cpu.ts";
import {
  driveDevice,
  iothreadId,
  scsiController,
  scsiControllerDevice,
  splitDriveKey,
} from "../block/drive-device.ts";
import { blockContext, deviceContext } from "../block/drives.ts";
import { moduleDevice, type MemoryModule } from "../processor/memory.ts";
import { nicContext, nicDevice } from "./network.ts";
import { deviceArguments, type JsonObject } from "../text/option-text.ts";
import { tabletDevice } from "./peripherals.ts";
import { spiceUsbDevice, usbHostDevice, usesXhci, xhciController } from "./usb.ts";

export interface QmpCommand {
  readonly execute: string;
  readonly arguments: JsonObject;
}

/** Steps to take in order; `undo` takes them back, also in order. */
export interface PlugPlan {
  readonly steps: readonly QmpCommand[];
  readonly undo: readonly QmpCommand[];
}

/** `input` describes the running guest: its machine and the configuration with the new device in it. */
export function plugDrive(
  input: CommandInput,
  key: string,
  drive: Drive,
  present: { readonly controllers: ReadonlySet<string> },
): PlugPlan {
  const build = new Build(input);
  const { scsihw } = build.values;
  const steps: QmpCommand[] = [];
  const undo: QmpCommand[] = [];
  const add = (step: QmpCommand, back: QmpCommand) => {
    steps.push(step);
    undo.unshift(back);
  };
  const thread = iothreadId(scsihw, key, drive);
  if (thread !== undefined) {
    add(
      { execute: "object-add", arguments: { "qom-type": "iothread", id: thread } },
      { execute: "object-del", arguments: { id: thread } },
    );
  }
  const { bus, index } = splitDriveKey(key);
  const { id } = scsiController(scsihw, index);
  if (bus === "scsi" && !present.controllers.has(id)) {
    const controller = scsiControllerDevice(scsihw, id, drive, build.pci.place(id));
    add({ execute: "device_add", arguments: deviceArguments(controller) }, deviceDel(id));
  }
  const nodes = drive.file === "none" ? undefined : driveNodes(blockContext(build), key, drive);
  if (nodes !== undefined) {
    add(
      { execute: "object-add", arguments: nodes.throttleGroup },
      { execute: "object-del", arguments: { id: throttleGroupId(key) } },
    );
    add(
      { execute: "blockdev-add", arguments: nodes.blockdev },
      { execute: "blockdev-del", arguments: { "node-name": topNodeName(key) } },
    );
  }
  // The order of devices to boot from is read by firmware at power-on only.
  const { bootIndex: _, ...context } = deviceContext(build, key);
  const device = driveDevice(context, key, drive, nodes?.volume);
  add({ execute: "device_add", arguments: deviceArguments(device) }, deviceDel(key));
  return { steps, undo };
}

/** What `blockdev-add` and `object-add` take for a drive: new media, mirror targets. */
export function driveNodeArguments(
  input: CommandInput,
  key: string,
  drive: Drive,
): { readonly blockdev: JsonObject; readonly throttleGroup: JsonObject } {
  const { blockdev, throttleGroup } = driveNodes(blockContext(new Build(input)), key, drive);
  return { blockdev, throttleGroup };
}

/** Arguments of `device_add`; the netdev with the same id is there already (tapNetdevArguments). */
export function plugNic(input: CommandInput, key: string, net: NetDevice): PlugPlan {
  const build = new Build(input);
  const { bootIndex: _, ...context } = nicContext(build, key, net);
  const { device } = nicDevice(key, net, context);
  return {
    steps: [{ execute: "device_add", arguments: deviceArguments(device) }],
    undo: [deviceDel(key)],
  };
}

/** Whether USB devices of this guest can come and go while it runs. */
export function hasPluggableUsb(input: CommandInput): boolean {
  return usesXhci(new Build(input));
}

/** A guest that started without USB devices gets the controller with the first; it keeps it. */
export function plugUsb(
  input: CommandInput,
  key: string,
  usb: UsbDevice,
  present: { readonly xhci: boolean },
): PlugPlan {
  const build = new Build(input);
  const index = Number(key.slice("usb".length));
  const steps: QmpCommand[] = [];
  const undo: QmpCommand[] = [];
  if (!present.xhci) {
    steps.push({ execute: "device_add", arguments: deviceArguments(xhciController(build)) });
    undo.unshift(deviceDel("xhci"));
  }
  if (isSpiceUsb(usb)) {
    const id = `usbredirchardev${index}`;
    const backend = { type: "spicevmc", data: { type: "usbredir" } };
    steps.push({ execute: "chardev-add", arguments: { id, backend } });
    undo.unshift({ execute: "chardev-remove", arguments: { id } });
  }
  const device = isSpiceUsb(usb)
    ? spiceUsbDevice(index, "xhci", index + 1)
    : usbHostDevice(input.host, key, usb, index + 1);
  steps.push({ execute: "device_add", arguments: deviceArguments(device) });
  undo.unshift(deviceDel(usbDeviceId(key, usb)));
  return { steps, undo };
}

export function isSpiceUsb({ host }: UsbDevice): boolean {
  return host?.toLowerCase() === "spice";
}

export function usbDeviceId(key: string, usb: UsbDevice): string {
  return isSpiceUsb(usb) ? `usbredirdev${key.slice("usb".length)}` : key;
}

/** The pointer of a console. */
export function plugTablet(input: CommandInput): PlugPlan {
  const device = deviceArguments(tabletDevice(new Build(input)));
  return { steps: [{ execute: "device_add", arguments: device }], undo: [deviceDel("tablet")] };
}

/** vCPU number 2 and up. */
export function plugCpu(input: CommandInput, id: number): PlugPlan {
  const device = cpuDevice(new Build(input), id);
  return {
    steps: [{ execute: "device_add", arguments: deviceArguments(device) }],
    undo: [deviceDel(`cpu${id}`)],
  };
}

const MIB = 1024 * 1024;

export function plugMemory(module: MemoryModule): PlugPlan {
  const id = `mem-${module.name}`;
  return {
    steps: [
      {
        execute: "object-add",
        arguments: { "qom-type": "memory-backend-ram", id, size: module.sizeMiB * MIB },
      },
      { execute: "device_add", arguments: deviceArguments(moduleDevice(module)) },
    ],
    undo: [deviceDel(module.name), { execute: "object-del", arguments: { id } }],
  };
}

function deviceDel(id: string): QmpCommand {
  return { execute: "device_del", arguments: { id } };
}
