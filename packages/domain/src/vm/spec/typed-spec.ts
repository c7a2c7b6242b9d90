// A VM's configuration as the typed fields of a VirtualMachine. What no field can say stays in `config`; where a
// field would be written with other text than PVE has, the text stands there beside the field, so nothing is lost.
import type { VmValues } from "../config/vm-config.ts";
import { bootDevices, bootValue } from "./boot-flags.ts";
import { listKeys } from "./list-keys.ts";
import { sectionKeys } from "./section-keys.ts";
import type { KeyMapping, ListKeys, SectionKey, TypedFields } from "./key-mapping.ts";

export type NamedFields = TypedFields & { readonly name: string };

export interface TypedVmSpec {
  readonly cpu?: TypedFields;
  readonly memory?: TypedFields;
  readonly disks?: readonly NamedFields[];
  readonly networks?: readonly NamedFields[];
  readonly bios?: TypedFields;
  readonly cloudInit?: TypedFields;
  readonly template?: boolean;
  readonly scheduling?: TypedFields;
  readonly config?: VmValues;
}

const sectionKeyOf = new Map(sectionKeys.map((row) => [row.key, row]));

export function mappingOf(key: string): SectionKey | ListKeys | undefined {
  return sectionKeyOf.get(key) ?? listKeys.find((list) => list.isKey(key));
}

export function toTypedSpec(values: VmValues): TypedVmSpec {
  const spec = new SpecBuilder();
  const config: Record<string, string> = {};
  for (const [key, text] of Object.entries(values)) {
    const mapping = key === "boot" ? undefined : mappingOf(key);
    const fields = mapping?.read(key, text);
    const written = mapping === undefined || fields === undefined ? "" : writtenAs(mapping, key, fields);
    if (written === "" || written !== text) config[key] = text;
    if (mapping !== undefined && fields !== undefined && written !== "") spec.add(key, mapping, fields);
  }
  const { boot } = values;
  if (boot !== undefined && spec.markBoot(bootDevices(boot) ?? []) === boot) delete config["boot"];
  return { ...spec.result(), config };
}

/** Empty where the fields say nothing, or what nobody could ask for. */
function writtenAs(mapping: KeyMapping, key: string, fields: TypedFields): string {
  try {
    return mapping.write(key, fields, "");
  } catch {
    return "";
  }
}

class SpecBuilder {
  readonly #sections = new Map<string, Record<string, unknown>>();
  readonly #lists = new Map<ListKeys, NamedFields[]>();

  add(key: string, mapping: SectionKey | ListKeys, fields: TypedFields): void {
    if ("section" in mapping) Object.assign(this.#section(mapping.section), fields);
    else this.#list(mapping).push({ name: key, ...fields });
  }

  /** Returns the order that the flags then say. */
  markBoot(order: readonly string[]): string | undefined {
    for (const list of this.#lists.keys()) {
      const items = this.#list(list);
      if (!isBootable(list)) continue;
      for (const [index, item] of items.entries())
        if (order.includes(item.name)) items[index] = { ...item, boot: true };
    }
    const devices = bootables(this.result());
    return bootValue(devices, undefined);
  }

  result(): TypedVmSpec {
    const sections = new Map(this.#sections);
    const top = sections.get("") ?? {};
    sections.delete("");
    const result: Record<string, unknown> = { ...Object.fromEntries(sections), ...top };
    for (const [{ path }, items] of this.#lists) {
      const [first = "", second] = path;
      const sorted = items.toSorted(byKind);
      if (second === undefined) result[first] = sorted;
      else result[first] = { ...(result[first] as TypedFields | undefined), [second]: sorted };
    }
    return result;
  }

  #section(name: string): Record<string, unknown> {
    let section = this.#sections.get(name);
    if (section === undefined) this.#sections.set(name, (section = {}));
    return section;
  }

  #list(keys: ListKeys): NamedFields[] {
    let list = this.#lists.get(keys);
    if (list === undefined) this.#lists.set(keys, (list = []));
    return list;
  }
}

function isBootable({ path }: ListKeys): boolean {
  return path.length === 1;
}

/** Disks, then networks, as the document has them. */
export function bootables(
  spec: TypedVmSpec,
): readonly { readonly name: string; readonly boot: boolean | undefined }[] {
  return [...(spec.disks ?? []), ...(spec.networks ?? [])].map((item) => ({
    name: item.name,
    boot: item["boot"] as boolean | undefined,
  }));
}

/** By kind, then by number: scsi2 before scsi10. */
function byKind(a: NamedFields, b: NamedFields): number {
  const [kindA, kindB] = [a.name.replace(/\d+$/, ""), b.name.replace(/\d+$/, "")];
  if (kindA !== kindB) return kindA < kindB ? -1 : 1;
  return Number(a.name.slice(kindA.length)) - Number(b.name.slice(kindB.length));
}
