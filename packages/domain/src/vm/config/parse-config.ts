// Reads a VM's configuration file. Lenient reading skips what it does not understand and says so; strict reading
// refuses the whole file at the first such line.
import { AppError } from "@gpve/contracts/errors.ts";
import type { PropertyFormat } from "../../schema/properties.ts";
import { decodeText } from "./config-text.ts";
import { checkVmValue, vmKeySchemas } from "./keys.ts";
import type { VmConfig } from "./vm-config.ts";

export interface ParseVmConfigOptions {
  readonly vmid: number;
  readonly strict?: boolean;
  /** SHA-1 in hex of the raw text. */
  readonly digestOf: (text: string) => string;
  /** Told every line that lenient reading skipped. */
  readonly warn?: (message: string) => void;
}

const SPECIAL_SCHEMAS: Readonly<Record<string, PropertyFormat>> = {
  cloudinit: vmKeySchemas,
  fleecing: { "fleecing-images": { type: "string", format: "pve-volume-id-list", optional: true } },
};

type SectionKind = "main" | "pending" | "special" | "snapshot" | "skipped";

interface Section {
  readonly kind: SectionKind;
  readonly name: string;
  readonly values: Map<string, string>;
  description: string | undefined;
}

export function parseVmConfig(text: string, options: ParseVmConfigOptions): VmConfig {
  return new ConfigReader(options).read(text);
}

class ConfigReader {
  readonly #options: ParseVmConfigOptions;
  readonly #main = newSection("main", "");
  #pending: Section | undefined;
  readonly #special = new Map<string, Section>();
  readonly #snapshots = new Map<string, Section>();

  constructor(options: ParseVmConfigOptions) {
    this.#options = options;
  }

  read(text: string): VmConfig {
    let section = this.#main;
    for (const line of text.split("\n")) {
      if (line.trim() === "") continue;
      const next = this.#openSection(line);
      if (next !== undefined) section = next;
      else if (section.kind !== "skipped") this.#readLine(section, line);
    }
    this.#main.values.delete("snapstate");
    return {
      digest: this.#options.digestOf(text),
      values: finish(this.#main),
      pending: this.#pending === undefined ? {} : finish(this.#pending),
      special: finishAll(this.#special),
      snapshots: finishAll(this.#snapshots),
    };
  }

  #problem(message: string): void {
    const text = `vm ${this.#options.vmid} - ${message}`;
    if (this.#options.strict === true)
      throw new AppError("config.invalid", text.trimEnd(), { pveStatus: 500 });
    this.#options.warn?.(text.trimEnd());
  }

  /** A later section of the same name replaces the earlier one. */
  #openSection(line: string): Section | undefined {
    const name = /^\[([^\]]*)\]\s*$/.exec(line)?.[1];
    if (name === undefined) return undefined;
    if (name.toUpperCase() === "PENDING") {
      if (this.#pending !== undefined) this.#problem("duplicate section: pending");
      this.#pending = newSection("pending", "pending");
      return this.#pending;
    }
    // Written otherwise it is kept, but none of its lines can be checked.
    const special = /^special:(cloudinit|fleecing)$/i.exec(name)?.[1];
    if (special !== undefined) {
      if (this.#special.has(special)) this.#problem(`duplicate special section: ${special}`);
      return remember(this.#special, newSection("special", special));
    }
    if (/^[a-z][a-z0-9_-]+$/i.test(name)) {
      if (this.#snapshots.has(name)) this.#problem(`duplicate snapshot section: ${name}`);
      return remember(this.#snapshots, newSection("snapshot", name));
    }
    this.#problem(`skipping unknown section: '${name}'`);
    return newSection("skipped", name);
  }

  #readLine(section: Section, line: string): void {
    if (line.startsWith("#")) {
      section.description = `${section.description ?? ""}${decodeText(line.slice(1))}\n`;
      return;
    }
    const description = /^description:\s*(.*\S)\s*$/.exec(line)?.[1];
    if (description !== undefined) {
      section.description = `${section.description ?? ""}${decodeText(description)}`;
      return;
    }
    const state = /snapstate:\s*(prepare|delete)\s*$/.exec(line)?.[1];
    if (state !== undefined) {
      section.values.set("snapstate", state);
      return;
    }
    const args = /^args:\s*(.*\S)\s*$/.exec(line)?.[1];
    if (args !== undefined) {
      section.values.set("args", args);
      return;
    }
    const removed = /^delete:\s*(.*\S)\s*$/.exec(line)?.[1];
    if (removed !== undefined) {
      if (section.kind === "pending") section.values.set("delete", removed);
      else this.#problem("property 'delete' is only allowed in [PENDING]");
      return;
    }
    const [, key, value] = /^([a-z][a-z_-]*\d*):\s*(.+?)\s*$/.exec(line) ?? [];
    if (key === undefined || value === undefined) this.#problem(`unable to parse config: ${line}`);
    else this.#readValue(section, key, value);
  }

  #readValue(section: Section, key: string, value: string): void {
    // What the cloud-init drive was made from is only shown, so it is kept as it is.
    if (section.kind === "special" && section.name === "cloudinit") {
      section.values.set(key, value);
      return;
    }
    const schemas = section.kind === "special" ? SPECIAL_SCHEMAS[section.name] : vmKeySchemas;
    if (schemas === undefined) {
      this.#problem(`unable to parse value of '${key}' - check_type: no schema defined`);
      return;
    }
    const checked = checkVmValue(key, value, schemas);
    if (checked.ok) section.values.set(key === "cdrom" ? "ide2" : key, checked.value);
    else this.#problem(`unable to parse value of '${key}' - ${checked.error}`);
  }
}

function newSection(kind: SectionKind, name: string): Section {
  return { kind, name, values: new Map(), description: undefined };
}

function remember(sections: Map<string, Section>, section: Section): Section {
  sections.set(section.name, section);
  return section;
}

function finish(section: Section): Record<string, string> {
  if (section.description !== undefined)
    section.values.set("description", section.description.replace(/\s+$/, ""));
  return Object.fromEntries(section.values);
}

function finishAll(sections: ReadonlyMap<string, Section>): Record<string, Record<string, string>> {
  return Object.fromEntries([...sections].map(([name, section]) => [name, finish(section)]));
}
