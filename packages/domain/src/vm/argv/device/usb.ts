// USB controllers and devices.
import { refused } from "../../../request/failures.ts";
import { readVmProperty } from "../../config/vm-properties.ts";
import type { UsbDevice } from "../../config/property-types.ts";
import type { Build } from "../build.ts";
import type { HostFacts } from "../host-facts.ts";
import { device, type DeviceOptions } from "../text/option-text.ts";
import { addressProperties } from "./pci-address.ts";
import { EHCI_COMPANIONS } from "./q35-devices.ts";

const MAX_USB = 14;
/** Ports before there was one controller for all. */
const OLD_MAX_USB = 5;

export function addUsbControllers(build: Build): void {
  const xhci = usesXhci(build);
  if (build.arch === "aarch64") {
    build.addDevice(device("usb-ehci", ["id", "ehci"], ...addressProperties(build.pci.place("ehci"))));
  } else if (!build.q35) {
    const { bus, addr } = build.pci.place("piix3") ?? { bus: "pci.0", addr: "0x1" };
    build.addDevice(device("piix3-usb-uhci", ["id", "uhci"], ["bus", bus], ["addr", `${addr}.0x2`]));
  }
  const devices = usbDevices(build, xhci);
  const usb2 = devices.some(({ usb }) => usb.usb3 !== true);
  const usb3 = devices.some(({ usb }) => usb.usb3 === true);
  if (!xhci && !build.q35 && usb2 && build.arch !== "aarch64") {
    if (build.stock) for (const each of EHCI_COMPANIONS) build.addDevice(each);
    else build.devices.push("-readconfig", "/usr/share/qemu-server/pve-usb.cfg");
  }
  const controller =
    xhci && devices.length > 0
      ? xhciController(build)
      : usb3
        ? device("nec-usb-xhci", ["id", "xhci"], ...addressProperties(build.pci.place("xhci")))
        : undefined;
  // PVE counts the controller's bus as used even without the controller.
  build.pci.place("xhci");
  if (controller !== undefined) build.addDevice(controller);
}

/** One controller for all devices; also for plugging it while the guest runs. */
export function xhciController(build: Build): DeviceOptions {
  const place = addressProperties(build.pci.place("xhci"));
  return device("qemu-xhci", ["p2", 15], ["p3", 15], ["id", "xhci"], ...place);
}

export function addUsbDevices(build: Build): void {
  const xhci = usesXhci(build);
  for (const { key, index, usb } of usbDevices(build, xhci)) {
    const port = xhci ? index + 1 : undefined;
    if (usb.host?.toLowerCase() === "spice") {
      if (build.stock && build.host.spice === undefined) {
        build.notes.push(`${key}: this QEMU has no SPICE, so USB redirection is off`);
        continue;
      }
      const onXhci = xhci || (usb.usb3 === true && build.since(4, 0));
      build.devices.push("-chardev", `spicevmc,id=usbredirchardev${index},name=usbredir`);
      build.addDevice(spiceUsbDevice(index, onXhci ? "xhci" : "ehci", port));
      if (build.bootIndexes.has(key))
        build.warnings.push("warning: spice usb port set as bootdevice, ignoring");
    } else {
      build.addDevice(usbHostDevice(build.host, key, usb, port, build.bootIndexes.get(key)));
    }
  }
}

export function spiceUsbDevice(index: number, bus: "ehci" | "xhci", port?: number): DeviceOptions {
  return device(
    "usb-redir",
    ["chardev", `usbredirchardev${index}`],
    ["id", `usbredirdev${index}`],
    ["bus", `${bus}.0`],
    ["port", port === undefined ? undefined : String(port)],
  );
}

/** A device of the host; also for plugging it while the guest runs. */
export function usbHostDevice(
  host: Pick<HostFacts, "usbMappings">,
  key: string,
  usb: UsbDevice,
  port: number | undefined,
  bootIndex?: number,
): DeviceOptions {
  const onXhci = usb.usb3 === true || port !== undefined;
  return device(
    "usb-host",
    ["bus", onXhci ? "xhci.0" : undefined],
    ["port", port === undefined ? undefined : String(port)],
    ...hostProperties(hostAddress(host, usb)),
    ["id", key],
    ["bootindex", bootIndex],
  );
}

function hostProperties(address: string): (readonly [string, string | number])[] {
  const id = /^(?:0x)?([0-9a-fA-F]{4}):(?:0x)?([0-9a-fA-F]{4})$/.exec(address);
  if (id !== null) {
    return [
      ["vendorid", `0x${id[1]}`],
      ["productid", `0x${id[2]}`],
    ];
  }
  const path = /^(\d+)-(\d+(?:\.\d+)*)$/.exec(address);
  if (path === null) throw refused("no usb id or path given");
  return [
    ["hostbus", Number(path[1])],
    ["hostport", String(path[2])],
  ];
}

/** "046d:c52b" or "1-2.3". Throws when the mapping means nothing on this host. */
export function hostAddress(host: Pick<HostFacts, "usbMappings">, usb: UsbDevice): string {
  if (usb.mapping === undefined) return usb.host ?? "";
  const entries = Object.hasOwn(host.usbMappings, usb.mapping) ? (host.usbMappings[usb.mapping] ?? []) : [];
  const [entry, ...more] = entries;
  if (entry === undefined) throw refused(`USB device mapping not found for '${usb.mapping}'`);
  if (more.length > 0) throw refused("More than one USB mapping per host not supported");
  return entry.path ?? entry.id;
}

/** Guests that know xHCI have all devices on it. */
export function usesXhci(build: Build): boolean {
  return build.since(7, 1) && (build.values["ostype"] === "l26" || build.windows > 7);
}

function usbDevices(
  build: Build,
  xhci: boolean,
): { readonly key: string; readonly index: number; readonly usb: UsbDevice }[] {
  const found: { key: string; index: number; usb: UsbDevice }[] = [];
  for (let index = 0; index < MAX_USB; index++) {
    const key = `usb${index}`;
    const text = build.values[key];
    if (text === undefined) continue;
    if (index >= OLD_MAX_USB && !xhci) {
      throw refused(`using ${key} is only possible with machine type >= 7.1 and ostype l26 or windows > 7`);
    }
    found.push({ key, index, usb: readVmProperty("usb", text, key) });
  }
  return found;
}
