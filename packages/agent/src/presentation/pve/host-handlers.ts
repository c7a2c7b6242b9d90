// PVE's methods about the host's network interfaces and PCI devices: reads of what is really there.
import { AppError } from "@gpve/contracts/errors.ts";
import type { PveHandlers } from "@gpve/domain/request/handler.ts";

export type HostRow = Readonly<Record<string, unknown>>;

export interface HostHandlerDeps {
  /** Rows of the interfaces, by name. */
  readonly interfaces: () => Promise<
    readonly (HostRow & { readonly iface: string; readonly type: string })[]
  >;
  readonly pciDevices: () => readonly (HostRow & { readonly class: string })[];
}

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
        throw new AppError("request.invalid", "Parameter verification failed.", {
          errors: { iface: "interface does not exist" },
        });
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
  };
}
