// Reads what kernel modules say of themselves and writes the two tables modprobe wants, for just the modules we take.
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { AppError } from "@gpve/contracts/errors.ts";
import type { Exec } from "@gpve/kit/exec.ts";

export interface KernelModule {
  readonly name: string;
  readonly bytes: Uint8Array;
  readonly depends: readonly string[];
  readonly aliases: readonly string[];
}

/** Loads the wanted modules and all they need. A name the kernel does not have as a module is left out: built in. */
export async function collectModules(
  folder: string,
  wanted: readonly string[],
  exec: Exec,
): Promise<KernelModule[]> {
  const files = moduleFiles(folder);
  const found = new Map<string, KernelModule>();
  const visit = async (name: string): Promise<void> => {
    const file = files.get(name);
    if (found.has(name) || file === undefined) return;
    const module = describeModule(name, await readModule(file, exec));
    found.set(name, module);
    for (const other of module.depends) await visit(other);
  };
  for (const name of wanted) await visit(normal(name));
  return [...found.values()].toSorted((a, b) => (a.name < b.name ? -1 : 1));
}

export function describeModule(name: string, bytes: Uint8Array): KernelModule {
  const text = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString("latin1");
  const values = (key: string): string[] =>
    [...text.matchAll(new RegExp(`\\0${key}=([ -~]*)(?=\\0)`, "g"))].map((match) => match[1] ?? "");
  return {
    name,
    bytes,
    depends: [...new Set(values("depends").flatMap((list) => list.split(",")))].filter(Boolean).map(normal),
    aliases: values("alias"),
  };
}

/** `modules.dep`: each module with everything it needs, nearest first, as depmod writes it. */
export function modulesDep(modules: readonly KernelModule[]): string {
  const byName = new Map(modules.map((module) => [module.name, module]));
  const closure = (module: KernelModule, seen = new Set<string>()): string[] => {
    for (const name of module.depends) {
      const other = byName.get(name);
      if (other === undefined) continue;
      seen.delete(name); // what is needed deeper must come later in the line
      seen.add(name);
      closure(other, seen);
    }
    return [...seen];
  };
  const line = (module: KernelModule): string =>
    `${module.name}.ko:${closure(module)
      .map((name) => ` ${name}.ko`)
      .join("")}`;
  return `${modules.map(line).join("\n")}\n`;
}

export function modulesAlias(modules: readonly KernelModule[]): string {
  const lines = modules.flatMap(({ name, aliases }) => aliases.map((alias) => `alias ${alias} ${name}`));
  return `${lines.join("\n")}\n`;
}

function normal(name: string): string {
  return name.replaceAll("-", "_");
}

function moduleFiles(folder: string): Map<string, string> {
  const files = readdirSync(folder, { recursive: true, encoding: "utf8" });
  const named = files.flatMap((file): [string, string][] => {
    const name = /([^/]+)\.ko(\.xz)?$/.exec(file)?.[1];
    return name === undefined ? [] : [[normal(name), join(folder, file)]];
  });
  if (named.length === 0) throw new AppError("internal.error", `no kernel modules below ${folder}`);
  return new Map(named);
}

async function readModule(file: string, exec: Exec): Promise<Uint8Array> {
  if (!file.endsWith(".xz")) return readFileSync(file);
  await exec("xz", ["--decompress", "--force", "--keep", file]);
  return readFileSync(file.slice(0, -".xz".length));
}
