// A VirtualMachine's spec as its node is asked for it: the configuration behind typed fields and `config`.
import type { Microvm } from "@gpve/domain/guest/guest-record.ts";
import { given } from "@gpve/contracts/given.ts";
import { AppError } from "@gpve/contracts/errors.ts";
import { invalidField } from "@gpve/contracts/invalid-field.ts";
import type { Fields } from "@gpve/contracts/json-object.ts";
import type { SchedulingRules } from "@gpve/domain/scheduler/model.ts";
import { readRules } from "@gpve/domain/scheduler/read-rules.ts";
import type { VmValues } from "@gpve/domain/vm/config/vm-config.ts";
import { settledConfig } from "@gpve/domain/vm/config/settled-config.ts";
import { splitGrowth, type SplitGrowth } from "@gpve/domain/vm/spec/disk-growth.ts";
import { toValues } from "@gpve/domain/vm/spec/spec-values.ts";
import { withDiskStorage, withVmDefaults, type VmDefaults } from "@gpve/domain/vm/spec/vm-defaults.ts";
import { toTypedSpec, type TypedVmSpec } from "@gpve/domain/vm/spec/typed-spec.ts";
import { refuseCallParameters, type VmSpec } from "./vm-spec.ts";

/** What holds where the spec is silent. */
export interface Absent {
  readonly defaults?: VmDefaults;
  /** The VM that is there. */
  readonly current?: { readonly values: VmValues; readonly typed: Pick<TypedVmSpec, "disks"> };
}

/** Its shape is checked by the kind's schema. */
export function readVmSpec(name: string, spec: Fields, node = "", absent: Absent = {}): VmSpec {
  const { defaults = {}, current } = absent;
  const typed = withDiskStorage(spec as TypedVmSpec, defaults.vmDisk, current?.typed);
  const { values: asked, paths } = toValues(typed);
  const values = spec["microvm"] === undefined ? withVmDefaults(asked, defaults, current?.values) : asked;
  refuseCallParameters(values);
  const { vmid } = spec;
  if (vmid !== undefined && String(vmid as number) !== name)
    throw invalidField("spec.vmid", `is ${String(vmid as number)}, but metadata.name is '${name}'`);
  return {
    node: (spec["node"] as string | undefined) ?? node,
    running: spec["running"] as boolean | undefined,
    config: values,
    paths,
    microvm: spec["microvm"] as Microvm | undefined,
    rules: readRules(spec["scheduling"]),
  };
}

/** As it is shown. */
export function shownVmSpec({ node, running, config, microvm, rules }: Omit<VmSpec, "paths">): Fields {
  return {
    node,
    ...given({ running }),
    ...withRules(toTypedSpec(config), rules),
    ...given({ microvm }),
  };
}

export function withRules(typed: TypedVmSpec, rules: SchedulingRules | undefined): Fields {
  return rules === undefined ? { ...typed } : { ...typed, scheduling: { ...typed.scheduling, ...rules } };
}

/** The pool of a VM that is to be made. */
export function poolOfNew(namespace: string | undefined, { config }: VmSpec): string | undefined {
  const { pool } = config;
  if (namespace !== undefined && pool !== undefined && pool !== namespace)
    throw invalidField(
      "spec.config.pool",
      `is '${pool}', but metadata.namespace is '${namespace}': say it once`,
    );
  return namespace ?? pool;
}

export function requireTenant(name: string, wanted: string | undefined, found: string | undefined): void {
  if (wanted === undefined || wanted === found) return;
  const where = found === undefined ? "in no tenant" : `in tenant '${found}'`;
  throw new AppError(
    "feature.unsupported",
    `VM ${name} is ${where}, but metadata.namespace is '${wanted}': moving it is no change of its spec; PUT /pools of /api2 moves it`,
  );
}

/** A typed disk without a volume means the one that is there, and a larger size that it grows. */
export function settledTyped(
  wanted: VmSpec,
  current: VmValues,
  options: { readonly mayStayLarger?: boolean } = {},
): SplitGrowth {
  const split = splitGrowth(wanted.config, current, wanted.paths, options);
  const values = Object.entries(split.values).map(([key, text]) => {
    const [found, path] = [current[key], wanted.paths.get(key)];
    if (found === undefined || path === undefined) return [key, text];
    return [key, underPath(path, () => settledConfig({ [key]: text }, { [key]: found })[key] ?? text)];
  });
  return { ...split, values: Object.fromEntries(values) as Record<string, string> };
}

/** What is wrong with a key's text, said of the field that asks for it. */
function underPath<T>(path: string, work: () => T): T {
  try {
    return work();
  } catch (err) {
    if (!(err instanceof AppError) || err.code !== "request.invalid") throw err;
    const details = Object.entries(err.errors ?? {}).map(([key, text]) => `${key}: ${text.trim()}`);
    throw invalidField(path, details.length === 0 ? err.message : details.join("; "));
  }
}
