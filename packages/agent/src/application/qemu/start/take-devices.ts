// Devices of the host for a guest that is about to start: reserved, taken from the host, reachable for QEMU.
import { missing } from "@gpve/domain/request/failures.ts";
import type { GuestFile } from "@gpve/domain/guest/guest-processes.ts";
import { mdevUuid } from "@gpve/domain/vm/argv/device/host-pci.ts";
import { isSpiceUsb } from "@gpve/domain/vm/argv/device/hotplug-arguments.ts";
import { hostAddress } from "@gpve/domain/vm/argv/device/usb.ts";
import type { UsbDevice } from "@gpve/domain/vm/config/property-types.ts";
import type { VmValues } from "@gpve/domain/vm/config/vm-config.ts";
import { readVmProperty } from "@gpve/domain/vm/config/vm-properties.ts";
import { processId } from "../running-vm.ts";
import type { PciReservations } from "./pci-reservations.ts";
import type { HostDevices } from "@gpve/domain/vm/host/host-devices.ts";
import type { HostMappings } from "@gpve/domain/vm/host/host-mappings.ts";
import type { HostMemory } from "@gpve/domain/vm/host/host-memory.ts";
import type { FileFacts } from "@gpve/domain/guest/file-facts.ts";
import type { QemuHost } from "@gpve/domain/vm/host/qemu-host.ts";

export interface UsbPorts {
  readonly devices: HostDevices;
  readonly qemu: QemuHost;
}

export interface TakeDevicesPorts extends UsbPorts {
  readonly pci: PciReservations;
  readonly mappings: HostMappings;
  readonly memory: HostMemory;
  readonly files: FileFacts;
}

export interface TakenDevices {
  readonly files: readonly GuestFile[];
  /** Whole devices; written down with the process, so that others know whose they are. */
  readonly pci: readonly string[];
  /** Devices write to the guest's memory by themselves: it may not move. */
  readonly writeMemory: boolean;
  /** The guest runs, or never will. */
  release(): void;
  /** The start failed: what was made for it goes. */
  giveBack(): Promise<void>;
}

/** How libusb finds devices. */
const USB_FOLDERS = ["/sys/bus/usb", "/sys/devices"];

export async function takeDevices(
  host: TakeDevicesPorts,
  vmid: number,
  values: VmValues,
  chosen: Readonly<Record<string, readonly string[]>>,
): Promise<TakenDevices> {
  const mediated = mediatedDevices(vmid, values);
  const pci = Object.entries(chosen).flatMap(([key, addresses]) =>
    mediated.some((each) => each.key === key) ? [] : addresses,
  );
  const release = host.pci.reserve(pci, vmid);
  const giveBack = async (): Promise<void> => {
    for (const { uuid } of mediated) await host.devices.removeMdev(uuid);
  };
  try {
    const paths = [...(await host.devices.takePci(pci))];
    for (const { key, uuid, type } of mediated)
      paths.push(await host.devices.makeMdev(chosen[key] ?? [], uuid, type));
    const files = paths.map((path): GuestFile => ({ path, access: "rw" }));
    files.push(...usbFiles(host, values), ...portFiles(values), ...romFiles(values));
    files.push(...rngFiles(host, values), ...(await sharedMemory(host, vmid, values)));
    return { files, pci, writeMemory: paths.length > 0, release, giveBack };
  } catch (err) {
    release();
    await giveBack();
    throw err;
  }
}

/** A mapping is a promise of certain hardware: nothing else is given in its place. */
export function requireMappedHardware(host: TakeDevicesPorts, values: VmValues): void {
  for (const [key, text] of Object.entries(values)) {
    const type = /^hostpci\d+$/.test(key) ? "pci" : /^usb\d+$/.test(key) ? "usb" : undefined;
    if (type === undefined) continue;
    const { mapping } = readVmProperty(type === "pci" ? "hostpci" : "usb", text, key);
    const fault = mapping === undefined ? undefined : host.mappings.changedHardware(type, mapping);
    if (fault === undefined) continue;
    const what = type === "pci" ? "PCI device mapping" : "USB Mapping";
    throw missing(`${what} invalid (hardware probably changed): ${fault}`);
  }
}

/** After the guest has ended: what was made for it goes. */
export async function removeMadeDevices(
  host: TakeDevicesPorts,
  vmid: number,
  values: VmValues,
): Promise<void> {
  for (const { uuid } of mediatedDevices(vmid, values)) await host.devices.removeMdev(uuid);
  const shared = sharedName(vmid, values);
  if (shared !== undefined) await host.memory.forget(shared);
  if (values["hugepages"] !== undefined) await host.memory.dropFolders(processId(vmid));
}

/** Serial and parallel ports of the host that a VM has. */
export function portPaths(values: VmValues): string[] {
  return Object.entries(values).flatMap(([key, path]) =>
    /^(?:serial|parallel)\d+$/.test(key) && path !== "socket" ? [path] : [],
  );
}

function portFiles(values: VmValues): GuestFile[] {
  return portPaths(values).map((path) => ({ path, access: "rw", ofHost: true }));
}

/** QEMU keeps it open, so it can be given to the next guest as soon as one has it. */
const HARDWARE_RNG = "/dev/hwrng";

function rngFiles(host: TakeDevicesPorts, values: VmValues): GuestFile[] {
  const text = values["rng0"];
  if (text === undefined) return [];
  const { source } = readVmProperty("rng0", text, "rng0");
  if (!host.files.exists(source))
    throw missing(`cannot create VirtIO RNG device: source file '${source}' doesn't exist`);
  // Everybody may read the others, and every guest has them.
  return source === HARDWARE_RNG ? [{ path: source, access: "ro", owned: true, ofHost: true }] : [];
}

function romFiles(values: VmValues): GuestFile[] {
  return Object.entries(values).flatMap(([key, text]): GuestFile[] => {
    if (!/^hostpci\d+$/.test(key)) return [];
    const { romfile } = readVmProperty("hostpci", text, key);
    return romfile === undefined ? [] : [{ path: `/usr/share/kvm/${romfile}`, access: "ro", owned: false }];
  });
}

/** Whoever starts last owns the file; guests that have it open do not notice. */
async function sharedMemory(host: TakeDevicesPorts, vmid: number, values: VmValues): Promise<GuestFile[]> {
  const name = sharedName(vmid, values);
  return name === undefined ? [] : [{ path: await host.memory.share(name), access: "rw" }];
}

function sharedName(vmid: number, values: VmValues): string | undefined {
  const text = values["ivshmem"];
  return text === undefined ? undefined : (readVmProperty("ivshmem", text, "ivshmem").name ?? String(vmid));
}

function mediatedDevices(
  vmid: number,
  values: VmValues,
): { readonly key: string; readonly uuid: string; readonly type: string }[] {
  return Object.entries(values).flatMap(([key, text]) => {
    const index = /^hostpci(\d+)$/.exec(key)?.[1];
    if (index === undefined) return [];
    const { mdev } = readVmProperty("hostpci", text, key);
    return mdev === undefined ? [] : [{ key, uuid: mdevUuid(vmid, Number(index)), type: mdev }];
  });
}

function usbFiles(host: TakeDevicesPorts, values: VmValues): GuestFile[] {
  const devices = Object.entries(values)
    .filter(([key]) => /^usb\d+$/.test(key))
    .map(([key, text]) => readVmProperty("usb", text, key))
    .filter((usb) => !isSpiceUsb(usb));
  return devices.length === 0 ? [] : [...usbFolders(host), ...devices.flatMap((usb) => usbNodes(host, usb))];
}

/** A device that is not plugged in has no file yet; the guest gets it with its next start. */
export function usbNodes(host: UsbPorts, usb: UsbDevice): GuestFile[] {
  return host.devices
    .usbFiles(hostAddress(host.qemu.facts(), usb))
    .map((path): GuestFile => ({ path, access: "rw", owned: true, ofHost: true }));
}

function usbFolders(host: TakeDevicesPorts): GuestFile[] {
  return USB_FOLDERS.filter((path) => host.files.exists(path)).map((path) => ({
    path,
    access: "ro",
    owned: false,
  }));
}

/** The directory of a mapping on this node. */
export function mappedDirectory(host: { readonly mappings: HostMappings }, id: string): string {
  const path = host.mappings.directories().get(id);
  if (path === undefined) throw missing(`Directory mapping not found for '${id}'`);
  return path;
}
