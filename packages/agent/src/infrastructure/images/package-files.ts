// Out of unpacked Debian packages: a program with the libraries that it asks for, and the modules of a kernel.
import { existsSync, readFileSync, realpathSync } from "node:fs";
import { basename, join } from "node:path";
import { AppError } from "@gpve/contracts/errors.ts";
import type { CpioEntry } from "./cpio-archive.ts";
import { elfFacts } from "./elf-facts.ts";

const LIBRARY_FOLDERS = [
  "lib/x86_64-linux-gnu",
  "usr/lib/x86_64-linux-gnu",
  "lib64",
  "usr/lib64",
  "lib",
  "usr/lib",
];

/** The loader under the name the program asks for, and every library by its own name: where it goes, and where it is. */
export function findLibraries(packages: string, program: Uint8Array, found: Map<string, string>): void {
  const visit = (bytes: Uint8Array): void => {
    const facts = elfFacts(bytes);
    if (facts === undefined) throw new AppError("internal.error", "a program of a guest is not a 64-bit one");
    if (facts.interpreter !== undefined) {
      const path = facts.interpreter.replace(/^\//, "");
      found.set(path, firstOf(packages, [path, `usr/${path}`, `lib/${basename(path)}`]));
    }
    for (const name of facts.needed) {
      const path = `lib/x86_64-linux-gnu/${name}`;
      if (found.has(path) || name.startsWith("ld-linux")) continue;
      const library = firstOf(
        packages,
        LIBRARY_FOLDERS.map((folder) => `${folder}/${name}`),
      );
      found.set(path, library);
      visit(readFileSync(library));
    }
  };
  visit(program);
}

/** The same, with what is in them. */
export function addLibraries(packages: string, program: Uint8Array, found: Map<string, Uint8Array>): void {
  const places = new Map<string, string>();
  findLibraries(packages, program, places);
  for (const [path, file] of places) if (!found.has(path)) found.set(path, readFileSync(file));
}

export function firstOf(root: string, paths: readonly string[]): string {
  const found = paths.map((path) => join(root, path)).find((path) => existsSync(path));
  if (found !== undefined) return realpathSync(found);
  throw new AppError("internal.error", `the unpacked Debian packages hold none of ${paths.join(", ")}`);
}

export function moduleFolder(packages: string, release: string): string {
  return firstOf(packages, [`lib/modules/${release}`, `usr/lib/modules/${release}`]);
}

/** Of several with one path, the last. */
export function uniqueEntries(entries: readonly CpioEntry[]): CpioEntry[] {
  return [...new Map(entries.map((entry) => [entry.path, entry])).values()];
}
