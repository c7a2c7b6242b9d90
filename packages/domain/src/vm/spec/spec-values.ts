// The configuration that a VirtualMachine's spec asks for: its typed fields and `config` together, which must not
// contradict each other.
import { AppError } from "@gpve/contracts/errors.ts";
import { invalidField } from "@gpve/contracts/invalid-field.ts";
import type { VmValues } from "../config/vm-config.ts";
import { bootValue } from "./boot-flags.ts";
import { listKeys } from "./list-keys.ts";
import { sectionKeys } from "./section-keys.ts";
import type { KeyMapping, TypedFields } from "./key-mapping.ts";
import { bootables, type NamedFields, type TypedVmSpec } from "./typed-spec.ts";

export interface SpecValues {
  readonly values: VmValues;
  /** Key -> where the spec says it, for what is wrong with its value. */
  readonly paths: ReadonlyMap<string, string>;
}

const SECRET_KEY = "cipassword";

interface Said {
  readonly key: string;
  readonly mapping: KeyMapping;
  readonly fields: TypedFields;
  readonly path: string;
}

/** Throws request.invalid with every field that is wrong, and both values where two contradict each other. */
export function toValues(spec: TypedVmSpec): SpecValues {
  const config = spec.config ?? {};
  const values: Record<string, string> = { ...config };
  const paths = new Map<string, string>();
  const errors: Record<string, string> = {};
  const collect = (work: () => void): void => {
    try {
      work();
    } catch (err) {
      if (!(err instanceof AppError) || err.code !== "request.invalid") throw err;
      Object.assign(errors, err.errors ?? { spec: err.message });
    }
  };
  for (const said of saidBy(spec, collect)) {
    collect(() => {
      const text = config[said.key];
      if (text !== undefined) {
        requireAgreement(said, text);
        return;
      }
      const written = said.mapping.write(said.key, said.fields, said.path);
      if (written === "") return;
      values[said.key] = written;
      paths.set(said.key, said.path);
    });
  }
  collect(() => {
    const boot = bootValue(bootables(spec), config["boot"]);
    if (boot !== undefined) values["boot"] = boot;
    if (boot !== undefined && config["boot"] === undefined) paths.set("boot", "spec.disks");
  });
  const lines = Object.entries(errors);
  if (lines.length > 0)
    throw new AppError("request.invalid", lines.map(([path, why]) => `${path} ${why}`).join("; "), {
      errors,
    });
  return { values, paths };
}

function* saidBy(spec: TypedVmSpec, collect: (work: () => void) => void): Iterable<Said> {
  const top = spec as TypedFields;
  for (const mapping of sectionKeys) {
    const section = mapping.section === "" ? top : (top[mapping.section] as TypedFields | undefined);
    const given = mapping.fields.filter((field) => section?.[field] !== undefined);
    if (section === undefined || given.length === 0) continue;
    const path = mapping.section === "" ? "spec" : `spec.${mapping.section}`;
    const fields = Object.fromEntries(given.map((field) => [field, section[field]]));
    yield { key: mapping.key, mapping, fields, path };
  }
  for (const list of listKeys) {
    const path = `spec.${list.path.join(".")}`;
    const items = list.path.reduce<unknown>((at, name) => (at as TypedFields | undefined)?.[name], top);
    const seen = new Set<string>();
    for (const { name, boot: _boot, ...fields } of (items ?? []) as readonly (NamedFields & {
      boot?: boolean;
    })[]) {
      const at = `${path}[${name}]`;
      collect(() => {
        if (!list.isKey(name)) throw invalidField(`${at}.name`, `'${name}' is none of ${list.kinds}`);
        if (seen.has(name)) throw invalidField(`${at}.name`, "is given twice");
      });
      if (list.isKey(name) && !seen.has(name)) yield { key: name, mapping: list, fields, path: at };
      seen.add(name);
    }
  }
}

/** What is typed may say less than the text does, and nothing else. */
function requireAgreement({ key, mapping, fields, path }: Said, text: string): void {
  const read = mapping.read(key, text);
  const at = `spec.config.${key}`;
  const found = key === SECRET_KEY ? "one secret" : `'${text}'`;
  const shown = (value: unknown): string => (key === SECRET_KEY ? "another" : JSON.stringify(value));
  if (read === undefined)
    throw invalidField(at, `is ${found}, which ${path} cannot say: leave one of them out`);
  const whole = mapping.write(key, { ...read, ...fields }, path);
  const alone = mapping.write(key, read, path);
  if (whole === alone) return;
  for (const [field, value] of Object.entries(fields)) {
    if (mapping.write(key, { ...read, [field]: value }, path) === alone) continue;
    throw invalidField(at, `is ${found}, but ${path}.${field} is ${shown(value)}: say it once`);
  }
  throw invalidField(at, `is ${found}, but ${path} is ${shown(fields)}: say it once`);
}
