// Images out of Debian packages and a kernel of Debian's: which packages, when to build anew, and how they get here.
import { createHash } from "node:crypto";
import { join } from "node:path";
import type { Exec } from "@gpve/kit/exec.ts";
import { DebianPackages } from "./debian-packages.ts";
import type { ImageRecipe } from "./image-recipe.ts";

const KERNEL = "linux-image-cloud-amd64";

export interface PackagesParts extends Pick<ImageRecipe, "name" | "suffix"> {
  /** Taken with their libraries. */
  readonly programs: readonly string[];
  /** Taken without. */
  readonly alone: readonly string[];
  /** What we add ourselves: another one makes another image. */
  readonly own: readonly unknown[];
  /** What the packages are for, in the log: " for the machine of workers". */
  readonly purpose?: string;
  readonly build: (at: Unpacked, say: (line: string) => void) => Promise<void>;
}

export interface Unpacked {
  /** Scratch space. */
  readonly folder: string;
  readonly target: string;
  /** Where the packages are, as one tree. */
  readonly packages: string;
  /** Of the kernel. */
  readonly release: string;
}

export function packagesRecipe(exec: Exec, parts: PackagesParts): ImageRecipe {
  const { programs, alone, own, purpose = "", build, ...named } = parts;
  const debian = new DebianPackages(exec);
  const packageNames = async (): Promise<{ kernel: string; all: string[] }> => {
    const graph = await debian.dependencies([KERNEL, ...programs]);
    const kernel = graph.meaning(KERNEL, /^linux-image-\d/);
    const withLibraries = new Set(programs.flatMap((name) => [name, ...graph.libraries(name)]));
    return { kernel, all: [kernel, ...alone, ...withLibraries] };
  };
  const recipeHash = (): string => createHash("sha256").update(JSON.stringify(own)).digest("hex");
  return {
    ...named,
    stamp: () => `${recipeHash()} ${debian.listsChanged()}`,
    inputs: async () => {
      const files = await debian.locate((await packageNames()).all);
      return [
        `recipe ${recipeHash()}`,
        ...files.map(({ file, checksum }) => `${file} ${checksum}`).toSorted(),
      ];
    },
    build: async (folder, target, say) => {
      const { kernel, all } = await packageNames();
      const packages = join(folder, "packages");
      say(`fetching ${all.length} Debian packages${purpose}`);
      await debian.unpack(all, join(folder, "archives"), packages);
      await build({ folder, target, packages, release: kernel.replace(/^linux-image-/, "") }, say);
    },
  };
}
