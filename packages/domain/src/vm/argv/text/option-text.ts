// How QEMU options are written: `driver,key=value,…` for the command line, the same pairs as JSON for QMP.

export type OptionValue = string | number | boolean;

/** A device with its properties in order; undefined properties are left out. */
export interface DeviceOptions {
  readonly driver: string;
  readonly properties: readonly (readonly [string, OptionValue])[];
}

/** JSON as QEMU's options take it. */
export type JsonValue =
  | string
  | number
  | boolean
  | null
  | readonly JsonValue[]
  | { readonly [key: string]: JsonValue };
export type JsonObject = { readonly [key: string]: JsonValue };

export function device(
  driver: string,
  ...properties: readonly (readonly [string, OptionValue | undefined])[]
): DeviceOptions {
  return {
    driver,
    properties: properties.filter((pair): pair is readonly [string, OptionValue] => pair[1] !== undefined),
  };
}

/** `-device` text. A comma inside a value is doubled, so no value can add a property of its own. */
export function deviceText({ driver, properties }: DeviceOptions): string {
  return [driver, ...properties.map(([key, value]) => `${key}=${valueText(value)}`)].join(",");
}

/** Arguments of QMP `device_add`. */
export function deviceArguments({ driver, properties }: DeviceOptions): JsonObject {
  return { driver, ...Object.fromEntries(properties) };
}

export function escapeComma(text: string): string {
  return text.replaceAll(",", ",,");
}

function valueText(value: OptionValue): string {
  if (typeof value === "boolean") return value ? "on" : "off";
  return typeof value === "number" ? String(value) : escapeComma(value);
}
