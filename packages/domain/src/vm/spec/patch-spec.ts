// A merge patch of a VirtualMachine's spec. Its `config` names keys that are shown as typed fields, and its typed
// fields replace what stands in `config` beside them: the patch wins over what is there, and must agree with itself.
import { invalidField } from "@gpve/contracts/invalid-field.ts";
import { placementFields } from "../../scheduler/read-rules.ts";
import type { VmValues } from "../config/vm-config.ts";
import { bootValue } from "./boot-flags.ts";
import type { TypedFields } from "./key-mapping.ts";
import { toValues } from "./spec-values.ts";
import { bootables, mappingOf, toTypedSpec, type TypedVmSpec } from "./typed-spec.ts";

type Merge = (target: unknown, patch: unknown) => unknown;

/** `merge` is RFC 7396: lists are replaced as a whole. */
export function patchVmSpec(current: TypedFields, patch: TypedFields, merge: Merge): TypedFields {
  const { config: configPatch, ...typedPatch } = patch;
  const { values } = toValues(current as TypedVmSpec);
  const wanted =
    configPatch ?? Object.fromEntries(Object.keys(current["config"] ?? {}).map((key) => [key, null]));
  const patched = (configPatch === undefined ? values : merge(values, wanted)) as VmValues;
  const shown = toTypedSpec(patched);
  const place = placementFields(current["scheduling"]);
  const typed = {
    ...besides(current),
    ...shown,
    ...(place === undefined ? {} : { scheduling: { ...shown.scheduling, ...place } }),
  };
  const merged = merge(typed, typedPatch) as TypedVmSpec & TypedFields;
  const config = Object.fromEntries(
    Object.entries(merged.config ?? {}).filter(([key, text]) => !isOverruled(key, text, typedPatch)),
  );
  const result = { ...merged, config: withoutOldBoot(merged, config, typedPatch) };
  requireSaidOnce(result, configPatch);
  return result;
}

/** What is no configuration. */
function besides(current: TypedFields): TypedFields {
  const names = ["vmid", "node", "running", "microvm"].filter((name) => current[name] !== undefined);
  return Object.fromEntries(names.map((name) => [name, current[name]]));
}

/** Text beside a field that the patch changes. What no field can say stays. */
function isOverruled(key: string, text: string, typedPatch: TypedFields): boolean {
  const mapping = mappingOf(key);
  if (mapping?.read(key, text) === undefined) return false;
  const section = "section" in mapping ? mapping.section || key : mapping.path[0];
  return section !== undefined && Object.hasOwn(typedPatch, section);
}

function withoutOldBoot(merged: TypedVmSpec, config: VmValues, typedPatch: TypedFields): VmValues {
  const { boot, ...rest } = config;
  if (boot === undefined || !(Object.hasOwn(typedPatch, "disks") || Object.hasOwn(typedPatch, "networks")))
    return config;
  try {
    bootValue(bootables(merged), boot);
    return config;
  } catch {
    return rest;
  }
}

function requireSaidOnce(result: TypedVmSpec, configPatch: unknown): void {
  const { values } = toValues(result);
  for (const [key, text] of Object.entries((configPatch ?? {}) as Readonly<Record<string, string | null>>)) {
    const found = values[key];
    if (text === null ? found === undefined : found === text) continue;
    const asked = text === null ? "is removed" : `is '${text}'`;
    const said = found === undefined ? "it is removed" : `'${found}' is asked for`;
    throw invalidField(
      `spec.config.${key}`,
      `${asked}, but ${said} by the patch's typed fields: say it once`,
    );
  }
}
