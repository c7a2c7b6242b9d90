// Where every device of a guest sits. The slots are part of the guest's hardware: an address that moves renames NICs
// and disks inside the guest, so the tables follow PVE's exactly and never change.
import type { GuestArch } from "../host-facts.ts";

export interface PciAddress {
  readonly bus: string;
  readonly addr: string;
}

const BUS_0 = [
  // slot 1: piix3 or ehci, shared
  ["vga", 2],
  ["balloon0", 3],
  ["watchdog", 4],
  ["scsihw0", 5],
  ["pci.3", 5],
  ["scsihw1", 6],
  ["ahci0", 7],
  ["qga0", 8],
  ["spice", 9],
  ["hostpci0", 16],
  ["hostpci1", 17],
  ["vga1", 24],
  ["vga2", 25],
  ["vga3", 26],
  ["hostpci2", 27],
  ["hostpci3", 28],
  ["pci.1", 30],
  ["pci.2", 31],
] as const;

const SLOTS: ReadonlyMap<string, readonly [number, number]> = new Map([
  ["piix3", [0, 1]],
  ["ehci", [0, 1]],
  // The guest's driver wants the host's slot.
  ["legacy-igd", [0, 2]],
  ...BUS_0.map(([id, slot]): [string, readonly [number, number]] => [id, [0, slot]]),
  ...run("virtio", 0, 5, 0, 10),
  ...run("net", 0, 5, 0, 18),
  ...run("net", 6, 31, 1, 1),
  ["xhci", [1, 27]],
  ["pci.4", [1, 28]],
  ["rng0", [1, 29]],
  ["pci.2-igd", [1, 30]],
  ...run("virtio", 6, 15, 2, 1),
  ["ivshmem", [2, 11]],
  ["audio0", [2, 12]],
  ...run("hostpci", 4, 15, 2, 13),
  ...run("virtioscsi", 0, 30, 3, 1),
  ...run("scsihw", 2, 4, 4, 1),
]);

// Windows 7 wants passed-through devices on the root bus.
const ROOT_BUS_SLOTS = [16, 17, 18, 19, 9, 10, 11, 12, 13, 14, 15, 21, 22, 23, 24, 25];

/** Buses that a device was placed on; the bridges for them are added at the end. */
export class PciBuses {
  readonly used = new Set<number>();
  readonly #arch: GuestArch;

  constructor(arch: GuestArch) {
    this.#arch = arch;
  }

  /** The address of a device on the PCI side; undefined when it has none of its own. */
  place(id: string): PciAddress | undefined {
    const slot = SLOTS.get(id);
    if (slot === undefined) return undefined;
    this.used.add(slot[0]);
    return this.addressOf(id);
  }

  /** The same without taking the bus into use. */
  addressOf(id: string): PciAddress | undefined {
    const slot = SLOTS.get(id);
    if (slot === undefined) return undefined;
    const [bus, index] = slot;
    // The virt machine calls its root bus pcie.0.
    const root = this.#arch === "aarch64" && bus === 0 ? "pcie" : "pci";
    return { bus: `${root}.${bus}`, addr: `0x${index.toString(16)}` };
  }
}

/** Addresses on the PCI Express side of q35. */
export function pcieAddress(id: string): PciAddress | undefined {
  if (id === "vga") return { bus: "pcie.0", addr: "0x1" };
  if (id === "ivshmem") return { bus: "pcie.0", addr: "0x14" };
  const match = /^hostpci(\d+)(bus0)?$/.exec(id);
  if (match === null) return undefined;
  const index = Number(match[1]);
  if (match[2] === undefined) return { bus: `ich9-pcie-port-${index + 1}`, addr: "0x0" };
  const slot = ROOT_BUS_SLOTS[index];
  return slot === undefined ? undefined : { bus: "pcie.0", addr: `0x${slot.toString(16)}` };
}

export function addressProperties(
  address: PciAddress | undefined,
): (readonly [string, string | undefined])[] {
  return [
    ["bus", address?.bus],
    ["addr", address?.addr],
  ];
}

function run(
  prefix: string,
  first: number,
  last: number,
  bus: number,
  slot: number,
): [string, readonly [number, number]][] {
  return Array.from({ length: last - first + 1 }, (_, index) => [
    `${prefix}${first + index}`,
    [bus, slot + index] as const,
  ]);
}
