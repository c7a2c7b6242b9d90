// Keys that are single fields, or a few, of cpu, memory, bios, cloudInit, scheduling and the spec itself.
import { invalidField } from "@gpve/contracts/invalid-field.ts";
import { cpuTypeFields, customFields } from "@gpve/contracts/v1/vm-spec/fields.ts";
import { readStartup } from "../../guest/startup-order.ts";
import { readVmProperty } from "../config/vm-properties.ts";
import type { SectionKey, TypedFields } from "./key-mapping.ts";
import { printProperties, readProperties, toFields, toProperties } from "./property-fields.ts";
import { formatQuantity, MIB, parseMiB } from "./quantity.ts";

export const sectionKeys: readonly SectionKey[] = [
  numberKey("cpu", "cores", "cores"),
  numberKey("cpu", "sockets", "sockets"),
  numberKey("cpu", "limit", "cpulimit"),
  numberKey("cpu", "units", "cpuunits"),
  numberKey("cpu", "vcpus", "vcpus"),
  textKey("cpu", "affinity", "affinity"),
  flagKey("cpu", "numa", "numa"),
  {
    section: "cpu",
    key: "cpu",
    fields: cpuTypeFields.map(({ field }) => field),
    read: (key, text) => {
      const properties = readProperties(key, text);
      return properties === undefined ? undefined : toFields(cpuTypeFields, properties);
    },
    write: (key, fields) => printProperties(key, toProperties(cpuTypeFields, fields)),
  },
  {
    section: "memory",
    key: "memory",
    fields: ["size"],
    read: (key, text) => {
      const properties = readProperties(key, text);
      const mib = properties === undefined ? Number.NaN : readVmProperty("memory", text, key).current;
      return Number.isSafeInteger(mib * MIB) ? { size: formatQuantity(mib * MIB) } : undefined;
    },
    write: (_key, fields, path) => String(parseMiB(String(fields["size"]), `${path}.size`)),
  },
  {
    section: "memory",
    key: "balloon",
    fields: ["ballooning", "minimum"],
    read: readBalloon,
    write: writeBalloon,
  },
  numberKey("memory", "shares", "shares"),
  textKey("bios", "type", "bios", ["seabios", "ovmf"]),
  textKey("cloudInit", "type", "citype"),
  textKey("cloudInit", "user", "ciuser"),
  textKey("cloudInit", "password", "cipassword"),
  flagKey("cloudInit", "upgrade", "ciupgrade"),
  textKey("cloudInit", "searchDomain", "searchdomain"),
  listKey(
    "cloudInit",
    "nameservers",
    "nameserver",
    (text) => text.split(" "),
    (items) => items.join(" "),
  ),
  listKey(
    "cloudInit",
    "sshKeys",
    "sshkeys",
    (text) => decoded(text)?.split("\n"),
    (items) => encodeURIComponent(items.join("\n").toWellFormed()),
  ),
  {
    section: "cloudInit",
    key: "cicustom",
    fields: ["custom"],
    read: (key, text) => {
      const properties = readProperties(key, text);
      const custom = properties === undefined ? undefined : toFields(customFields, properties);
      return custom === undefined ? undefined : { custom };
    },
    write: (key, fields) => printProperties(key, toProperties(customFields, fields["custom"] as TypedFields)),
  },
  flagKey("", "template", "template"),
  flagKey("scheduling", "startOnBoot", "onboot"),
  {
    section: "scheduling",
    key: "startup",
    fields: ["startOrder", "startDelaySeconds", "stopTimeoutSeconds"],
    read: (_key, text) => {
      const { order, up, down } = readStartup(text);
      return defined({ startOrder: order, startDelaySeconds: up, stopTimeoutSeconds: down });
    },
    write: (_key, { startOrder, startDelaySeconds, stopTimeoutSeconds }) =>
      Object.entries(defined({ order: startOrder, up: startDelaySeconds, down: stopTimeoutSeconds }))
        .map(([name, value]) => `${name}=${String(value)}`)
        .join(","),
  },
];

function numberKey(section: string, field: string, key: string): SectionKey {
  return {
    section,
    key,
    fields: [field],
    read: (_key, text) => {
      const value = Number(text);
      return text.trim() !== "" && Number.isFinite(value) ? { [field]: value } : undefined;
    },
    write: (_key, fields, path) => {
      const text = String(fields[field]);
      // As exponents, which no key takes: what is that large or that small is a mistake.
      if (!/^\d+(?:\.\d+)?$/.test(text)) throw invalidField(`${path}.${field}`, `${text} is out of range`);
      return text;
    },
  };
}

function flagKey(section: string, field: string, key: string): SectionKey {
  return {
    section,
    key,
    fields: [field],
    read: (_key, text) => (text === "1" || text === "0" ? { [field]: text === "1" } : undefined),
    write: (_key, fields) => (fields[field] === true ? "1" : "0"),
  };
}

function textKey(section: string, field: string, key: string, among?: readonly string[]): SectionKey {
  return {
    section,
    key,
    fields: [field],
    read: (_key, text) => (among?.includes(text) === false ? undefined : { [field]: text }),
    write: (_key, fields) => String(fields[field]),
  };
}

function listKey(
  section: string,
  field: string,
  key: string,
  split: (text: string) => readonly string[] | undefined,
  join: (items: readonly string[]) => string,
): SectionKey {
  return {
    section,
    key,
    fields: [field],
    read: (_key, text) => {
      const items = split(text)?.filter((item) => item !== "");
      return items === undefined || items.length === 0 ? undefined : { [field]: items };
    },
    write: (_key, fields, path) => {
      const items = fields[field] as readonly string[];
      if (items.length === 0) throw invalidField(`${path}.${field}`, "is empty: leave it out instead");
      return join(items);
    },
  };
}

/** No key: a balloon down to what the guest has; 0: no balloon. */
function readBalloon(_key: string, text: string): TypedFields | undefined {
  const mib = Number(text);
  if (!/^\d+$/.test(text) || !Number.isSafeInteger(mib * MIB)) return undefined;
  return mib === 0 ? { ballooning: false } : { minimum: formatQuantity(mib * MIB) };
}

function writeBalloon(_key: string, fields: TypedFields, path: string): string {
  const { ballooning, minimum } = fields as { readonly ballooning?: boolean; readonly minimum?: string };
  if (minimum === undefined) return ballooning === false ? "0" : "";
  const mib = parseMiB(minimum, `${path}.minimum`);
  if (ballooning !== undefined && ballooning !== mib > 0)
    throw invalidField(`${path}.minimum`, `is '${minimum}', but ${path}.ballooning is ${ballooning}`);
  return String(mib);
}

function decoded(text: string): string | undefined {
  try {
    return decodeURIComponent(text);
  } catch {
    return undefined;
  }
}

function defined(fields: TypedFields): TypedFields {
  return Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined));
}
