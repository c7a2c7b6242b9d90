// The files of this repository as the house rules see them.
import { readdirSync, readFileSync } from "node:fs";
import { join, relative, resolve } from "node:path";

export const ROOT = resolve(import.meta.dirname, "../..");

const SKIPPED = new Set(["node_modules", ".git", "coverage", "dist", ".cache"]);

/** Paths from the root, sorted. */
export function allFiles(below = "."): string[] {
  const walk = (dir: string): string[] =>
    readdirSync(dir, { withFileTypes: true }).flatMap((item) => {
      if (SKIPPED.has(item.name)) return [];
      const path = join(dir, item.name);
      if (item.isDirectory()) return walk(path);
      return item.isFile() ? [relative(ROOT, path)] : [];
    });
  return walk(join(ROOT, below)).toSorted();
}

export function read(path: string): string {
  return readFileSync(resolve(ROOT, path), "utf8");
}

export const isGenerated = (path: string): boolean =>
  /(^|\/)gen\//.test(path) || path === "package-lock.json";

/** TypeScript we wrote. */
export function sources(): string[] {
  return allFiles().filter((path) => /\.[cm]?tsx?$/.test(path) && !isGenerated(path));
}

export const isTest = (path: string): boolean => /\.test\.ts$|(^|\/)testing\/|^test\//.test(path);
