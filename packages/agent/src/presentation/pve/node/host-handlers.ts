// PVE's methods about the host's network interfaces and PCI devices: reads of what is really there.
import { parameterError } from "@gpve/domain/request/failures.ts";
import type { PveHandlers } from "@gpve/domain/request/handler.ts";

export type HostRow = Readonly<Record<string, unknown>>;

export interface HostHandlerDeps {
  /** Rows of the interfaces, by name. */
  readonly interfaces: () => Promise<
    readonly (HostRow & { readonly iface: string; readonly type: string })[]
  >;
  readonly pciDevices: () => readonly (HostRow & { readonly class: string })[];
  readonly usbDevices: () => readonly HostRow[];
  /** Kinds of mediated devices of a PCI device. */
  readonly mdevTypes: (device: string) => readonly (HostRow & { readonly type: string })[];
  /** Addresses of a PCI mapping on this node; undefined = no such mapping. */
  readonly mappedPci: (id: string) => readonly string[] | undefined;
}

const PCI_ADDRESS = /^(?:[0-9a-f]{4}:)?[0-9a-f]{2}:[0-9a-f]{2}\.[0-9a-f]$/i;

/** What PVE leaves out unless told otherwise: memory controllers, bridges, processors. */
const DULL_CLASSES = "05;06;0b";
const ANY_BRIDGE = new Set(["bridge", "OVSBridge"]);

export function createHostHandlers(deps: HostHandlerDeps): PveHandlers {
  return {
    "GET /nodes/{node}/network": async ({ type }) => {
      const rows = await deps.interfaces();
      if (type === undefined) return rows;
      const isAnyBridge = /^any_(?:local_)?bridge$|^include_sdn$/.test(type);
      return rows.filter((row) => (isAnyBridge ? ANY_BRIDGE.has(row.type) : row.type === type));
    },
    "GET /nodes/{node}/network/{iface}": async ({ iface }) => {
      const row = (await deps.interfaces()).find((each) => each.iface === iface);
      if (row === undefined) {
        throw parameterError({ iface: "interface does not exist" });
      }
      const { iface: _name, ...rest } = row;
      return rest;
    },
    "GET /nodes/{node}/hardware/pci": ({ "pci-class-blacklist": left, verbose }) => {
      const classes = (left ?? DULL_CLASSES).split(/[,;\s]+/).filter((each) => each !== "");
      const rows = deps
        .pciDevices()
        .filter((row) => !classes.some((each) => row.class.startsWith(`0x${each}`)));
      return verbose === false ? rows.map((row) => row["id"]) : rows;
    },
    "GET /nodes/{node}/hardware/pci/{pci-id-or-mapping}/mdev": (params) => {
      const wanted = params["pci-id-or-mapping"];
      if (PCI_ADDRESS.test(wanted)) return deps.mdevTypes(withDomain(wanted));
      // Devices of several functions have no mediated devices; the same kind on two devices is shown once.
      const single = (deps.mappedPci(wanted) ?? []).filter((path) => !path.includes(";"));
      const byType = new Map<string, HostRow>();
      for (const row of single.flatMap((path) => deps.mdevTypes(withDomain(path))))
        if (!byType.has(row.type)) byType.set(row.type, row);
      return [...byType.keys()].toSorted().map((type) => byType.get(type));
    },
    "GET /nodes/{node}/hardware/usb": () => deps.usbDevices(),
  };
}

function withDomain(address: string): string {
  return /^[0-9a-f]{4,}:[0-9a-f]{2}:/i.test(address) ? address : `0000:${address}`;
}
