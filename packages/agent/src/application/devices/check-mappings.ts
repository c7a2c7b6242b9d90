// Checks mappings of the cluster against this node, for a server that was asked to.
import { isAppError } from "@gpve/contracts/errors.ts";
import {
  checkDirectoryEntry,
  checkPciEntry,
  checkUsbEntry,
  type MappingHost,
} from "@gpve/domain/mapping/check-mapping.ts";
import { entriesOn, type Mapping, type MappingEntry } from "@gpve/domain/mapping/mapping.ts";
import type { OwnHandlers } from "../agent.ts";

export function createMappingChecks(
  node: string,
  host: MappingHost,
  /** Throws when guests may not have a directory of this host. */
  requireDirectory: (path: string) => Promise<void>,
): OwnHandlers<"POST /gpve/nodes/{node}/mapping-checks"> {
  const placeFault = async ({ path }: MappingEntry): Promise<string | undefined> => {
    try {
      if (path !== undefined) await requireDirectory(path);
      return undefined;
    } catch (err) {
      if (!isAppError(err)) throw err;
      return err.message;
    }
  };
  return {
    "POST /gpve/nodes/{node}/mapping-checks": ({ type: kind, mappings, onlyPlace }) => {
      const faults = async (id: string, entry: MappingEntry): Promise<string[]> => {
        const found = onlyPlace === true ? undefined : faultOf(kind, id, entry, host);
        const fault = found ?? (kind === "dir" ? await placeFault(entry) : undefined);
        return fault === undefined ? [] : [fault];
      };
      return Promise.all(
        mappings.map(async ({ id, map }) =>
          (
            await Promise.all(entriesOn({ type: kind, id, map }, node).map((entry) => faults(id, entry)))
          ).flat(),
        ),
      );
    },
  };
}

/**
 * Why a guest must not get what a mapping names: there is something else by now. A USB device that is not plugged in is
 * no harm; the guest gets it when it comes.
 */
export function changedHardware(
  all: readonly Mapping[],
  node: string,
  wanted: { readonly type: "pci" | "usb"; readonly id: string },
  host: MappingHost,
): string | undefined {
  const mapping = all.find(({ type, id }) => type === wanted.type && id === wanted.id);
  if (mapping === undefined) return undefined;
  const faults = entriesOn(mapping, node).flatMap(
    (entry) => faultOf(mapping.type, mapping.id, entry, host) ?? [],
  );
  return faults.find((fault) => wanted.type === "pci" || !fault.endsWith(" not found"));
}

function faultOf(
  type: Mapping["type"],
  name: string,
  entry: MappingEntry,
  host: MappingHost,
): string | undefined {
  switch (type) {
    case "pci":
      return checkPciEntry(name, entry, host);
    case "usb":
      return checkUsbEntry(name, entry, host);
    case "dir":
      return checkDirectoryEntry(entry, host);
  }
}
