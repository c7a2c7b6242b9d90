// Reading and printing the property strings of a VM's configuration as the types of property-types.ts.
import { AppError } from "@gpve/contracts/errors.ts";
import { propertyFormatOf, type PropertyRecord } from "../../schema/check.ts";
import { splitList } from "../../schema/list.ts";
import type { PropertyFormat } from "../../schema/properties.ts";
import { printPropertyString, readPropertyString } from "../../schema/property-string.ts";
import { vmKeySchemas } from "./keys.ts";
import type { VmPropertyTypes } from "./property-types.ts";

export type VmPropertyKind = keyof VmPropertyTypes;

/** Reads a value, or throws request.invalid with PVE's text; `key` (net0) prefixes the keys of nested errors. */
export function readVmProperty<K extends VmPropertyKind>(
  kind: K,
  text: string,
  key = "",
): VmPropertyTypes[K] {
  return readPropertyString(formatOf(kind), text, key) as unknown as VmPropertyTypes[K];
}

export function printVmProperty<K extends VmPropertyKind>(kind: K, value: VmPropertyTypes[K]): string {
  return printPropertyString(formatOf(kind), value as unknown as PropertyRecord);
}

function formatOf(kind: VmPropertyKind): string | PropertyFormat {
  const schema =
    kind === "numaN" ? vmKeySchemas["numa[n]"] : (vmKeySchemas[`${kind}[n]`] ?? vmKeySchemas[kind]);
  // A named format keeps its name: rules over the whole string hang on it.
  if (schema?.format === undefined || propertyFormatOf(schema.format) === undefined)
    throw new AppError("internal.error", `${kind} is no property string`);
  return schema.format;
}

export type HotplugFeature = "network" | "disk" | "cpu" | "memory" | "usb" | "cloudinit";

const DEFAULT_HOTPLUG: readonly HotplugFeature[] = ["network", "disk", "usb"];

/** `0` none, `1` or nothing the default, else the named ones. */
export function readHotplug(text: string | undefined): ReadonlySet<HotplugFeature> {
  if (text === undefined || text === "1") return new Set(DEFAULT_HOTPLUG);
  return new Set(text === "0" ? [] : (splitList(text) as HotplugFeature[]));
}

/** Devices to boot from, in order; undefined when the key is not of the `order=` kind. */
export function readBootDevices(text: string | undefined): readonly string[] | undefined {
  if (text === undefined) return undefined;
  const { order, legacy } = readVmProperty("boot", text, "boot");
  if (order === undefined) return legacy === undefined ? [] : undefined;
  return splitList(order);
}

export function printBootDevices(devices: readonly string[]): string {
  return devices.length === 0 ? "" : `order=${devices.join(";")}`;
}

/** MiB of RAM; PVE's default without the key. */
export function memoryMiB(text: string | undefined): number {
  return text === undefined ? 512 : readVmProperty("memory", text, "memory").current;
}
