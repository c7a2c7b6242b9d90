// Mappings of the cluster: one name for what is a PCI device, a USB device or a directory on each node.
import { refused } from "../request/failures.ts";
import { given } from "@gpve/contracts/given.ts";
import { AppError } from "@gpve/contracts/errors.ts";
import { methodByKey } from "../schema/method-table.ts";
import { readPropertyString } from "../schema/property-string.ts";
import type { PropertyFormat } from "../schema/properties.ts";
import type { UsbMappingEntry, PciMapping } from "../vm/argv/host-facts.ts";
import { unknownShape } from "../record/collection.ts";

export const mappingTypes = ["pci", "usb", "dir"] as const;
export type MappingType = (typeof mappingTypes)[number];

export interface Mapping {
  readonly type: MappingType;
  readonly id: string;
  /** Property strings, one or more per node. */
  readonly map: readonly string[];
  readonly description?: string;
  readonly mdev?: boolean;
  readonly "live-migration-capable"?: boolean;
}

/** One entry of `map`, for one node. */
export interface MappingEntry {
  readonly node: string;
  readonly path?: string;
  readonly id?: string;
  readonly "subsystem-id"?: string;
  readonly iommugroup?: number;
  readonly description?: string;
}

const OPTIONAL: Readonly<Record<MappingType, readonly string[]>> = {
  pci: ["description", "mdev", "live-migration-capable"],
  usb: ["description"],
  dir: ["description"],
};

export const mappingCollection = {
  prefix: "/gpve/mapping/",
  decode(json: unknown): Mapping {
    const { type, id, map } = (json ?? {}) as Partial<Mapping>;
    if (type === undefined || !mappingTypes.includes(type) || typeof id !== "string" || !Array.isArray(map))
      throw unknownShape("a mapping in the store");
    return json as Mapping;
  },
  encode: (mapping: Mapping): unknown => mapping,
};

export function mappingKey(type: MappingType, id: string): string {
  return `${type}/${id}`;
}

export type MappingOptions = Partial<Omit<Mapping, "type" | "id">>;

/** Throws PVE's text when `map` is not there. */
export function newMapping(type: MappingType, id: string, options: MappingOptions): Mapping {
  const { map } = options;
  if (map === undefined) throw refused("missing value for required option 'map'");
  const counts = new Map<string, number>();
  for (const { node } of map.map((text) => readEntry(type, text)))
    counts.set(node, (counts.get(node) ?? 0) + 1);
  for (const [node, count] of counts)
    if (type === "dir" && count > 1) throw refused(`Node '${node}' is specified ${count} times.`);
  return { type, id, ...optionsOf(options), map };
}

export function changedMapping(before: Mapping, set: MappingOptions, remove: readonly string[]): Mapping {
  const { type, id } = before;
  const changed = newMapping(type, id, set);
  const kept = new Map<string, unknown>(Object.entries(before));
  for (const key of remove) {
    if (key === "map") throw refused(`unable to delete required option '${key}'`);
    if (!OPTIONAL[type].includes(key)) throw refused(`no such option '${key}'`);
    if (Object.hasOwn(changed, key))
      throw refused(`cannot set and delete property '${key}' at the same time!`);
    kept.delete(key);
  }
  return { ...(Object.fromEntries(kept) as unknown as Mapping), ...changed };
}

export function readEntry(type: MappingType, text: string): MappingEntry {
  return readPropertyString(entryFormat(type), text, "map") as unknown as MappingEntry;
}

/** What a mapping means on one node. */
export function entriesOn(mapping: Mapping, node: string): MappingEntry[] {
  return entriesOf(mapping).filter((entry) => entry.node === node);
}

/** Of all nodes; entries that cannot be read mean nothing. */
export function entriesOf({ type, map }: Mapping): MappingEntry[] {
  return map.flatMap((text) => {
    try {
      return [readEntry(type, text)];
    } catch {
      return []; // written by a version that knew more keys
    }
  });
}

/** As a VM's command line wants them. */
export interface MappingsOfNode {
  readonly pciMappings: Readonly<Record<string, PciMapping>>;
  readonly usbMappings: Readonly<Record<string, readonly UsbMappingEntry[]>>;
  readonly directories: ReadonlyMap<string, string>;
}

export function mappingsOn(all: readonly Mapping[], node: string): MappingsOfNode {
  const pciMappings: Record<string, PciMapping> = {};
  const usbMappings: Record<string, readonly UsbMappingEntry[]> = {};
  const directories = new Map<string, string>();
  for (const mapping of all) {
    const entries = entriesOn(mapping, node);
    const [first] = entries;
    if (mapping.type === "pci") {
      const { mdev, "live-migration-capable": live } = mapping;
      pciMappings[mapping.id] = {
        paths: entries.flatMap(({ path }) => path ?? []),
        ...given({ mdev, liveMigrationCapable: live }),
      };
    } else if (mapping.type === "usb") {
      usbMappings[mapping.id] = entries.map(({ id = "", path }) => ({
        id,
        ...given({ path }),
      }));
    } else if (first?.path !== undefined) directories.set(mapping.id, first.path);
  }
  return { pciMappings, usbMappings, directories };
}

function entryFormat(type: MappingType): PropertyFormat {
  const items = methodByKey(`POST /cluster/mapping/${type}`)?.parameters["map"]?.items;
  if (items === undefined || typeof items.format !== "object")
    throw new AppError("internal.error", `the format of ${type} mappings is not known`);
  return items.format;
}

function optionsOf(options: MappingOptions): MappingOptions {
  return Object.fromEntries(Object.entries(options).filter(([, value]) => value !== undefined));
}
