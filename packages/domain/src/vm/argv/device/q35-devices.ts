// Devices every q35 guest of PVE has: USB, sound, PCI Express ports and the bridges pci.0 to pci.3. PVE keeps them in
// a file of its own; here they are data, so that a guest moved between the two sees the same hardware.
import { device, type DeviceOptions, type OptionValue } from "../text/option-text.ts";

const ROOT_PORTS = [0, 1, 2, 3];
const BRIDGES = [0, 1, 2, 3];

/** The USB 2 controller of i440fx guests that plug USB 2 devices. */
export const EHCI_COMPANIONS: readonly DeviceOptions[] = [
  device("ich9-usb-ehci1", ["id", "ehci"], ["addr", "1d.7"], ["multifunction", true]),
  ...[0, 1, 2].map((index) =>
    device(
      `ich9-usb-uhci${index + 1}`,
      ["id", `uhci-${index + 1}`],
      ["addr", `1d.${index}`],
      ["multifunction", true],
      ["masterbus", "ehci.0"],
      ["firstport", index * 2],
    ),
  ),
];

/** Machine versions before 4.0 (`modern` false) have root ports of another make, which show no speed of PCIe 4. */
export function q35Devices(modern: boolean): readonly DeviceOptions[] {
  return [
    ...usbGroup("ehci", 1, 0x1d, 0),
    ...usbGroup("ehci-2", 2, 0x1a, 3),
    onRoot("ich9-intel-hda", "audio0", "1b.0"),
    ...ROOT_PORTS.map((index) => rootPort(index, `1c.${index}`, modern)),
    onRoot("i82801b11-bridge", "pcidmi", "1e.0"),
    ...BRIDGES.map((index) =>
      device(
        "pci-bridge",
        ["id", `pci.${index}`],
        ["bus", "pcidmi"],
        ["addr", `${index + 1}.0`],
        ["chassis_nr", index + 1],
      ),
    ),
  ];
}

function usbGroup(id: string, number: number, slot: number, firstUhci: number): DeviceOptions[] {
  const at = (fn: number) => `${slot.toString(16)}.${fn}`;
  return [
    onRoot(`ich9-usb-ehci${number}`, id, at(7), ["multifunction", true]),
    ...[0, 1, 2].map((index) =>
      onRoot(
        `ich9-usb-uhci${firstUhci + index + 1}`,
        `uhci-${firstUhci + index + 1}`,
        at(index),
        ["multifunction", true],
        ["masterbus", `${id}.0`],
        ["firstport", index * 2],
      ),
    ),
  ];
}

function rootPort(index: number, addr: string, modern: boolean): DeviceOptions {
  return device(
    modern ? "pcie-root-port" : "ioh3420",
    ["id", `ich9-pcie-port-${index + 1}`],
    ["x-speed", modern ? "16" : undefined],
    ["x-width", modern ? "32" : undefined],
    ["multifunction", true],
    ["bus", "pcie.0"],
    ["addr", addr],
    ["port", index + 1],
    ["chassis", index + 1],
  );
}

function onRoot(
  driver: string,
  id: string,
  addr: string,
  ...more: readonly (readonly [string, OptionValue])[]
): DeviceOptions {
  return device(driver, ["id", id], ["bus", "pcie.0"], ["addr", addr], ...more);
}
