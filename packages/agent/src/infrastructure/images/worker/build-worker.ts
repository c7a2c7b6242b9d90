// The machine of L3 workers, in two steps that are kept by what goes into them: what comes of Debian (a kernel, the archive
// that it starts with, a root without Kubernetes), and a disk of that root with the programs of one version of Kubernetes.
// Nothing here needs an installed package other than apt, dpkg and e2fsprogs.
import { cpSync, mkdirSync, statSync, symlinkSync, writeFileSync } from "node:fs";
import { basename, dirname, join } from "node:path";
import { zstdCompressSync } from "node:zlib";
import type { Exec } from "@gpve/kit/exec.ts";
import { cpioArchive, type CpioEntry } from "../cpio-archive.ts";
import { packagesRecipe } from "../packages-recipe.ts";
import type { ImageRecipe } from "../image-recipe.ts";
import { earlyRoot, WORKER_MODULES, WORKER_PROGRAMS, workerRoot } from "./worker-root.ts";
import { EARLY_INIT, WORKER_SCRIPTS } from "./worker-scripts.ts";

const MIB = 2 ** 20;

/** A folder with `vmlinuz`, `initrd` and `root/`. */
export function workerBaseRecipe(exec: Exec): ImageRecipe {
  return packagesRecipe(exec, {
    name: "worker-base",
    suffix: "",
    alone: ["busybox-static"],
    programs: ["nftables", "mount"],
    own: [EARLY_INIT, WORKER_SCRIPTS, WORKER_MODULES, WORKER_PROGRAMS],
    purpose: " for the machine of workers",
    build: async ({ target, packages, release }, say) => {
      say(`packing the machine of workers with Linux ${release}`);
      mkdirSync(target);
      const early = cpioArchive(await earlyRoot(packages, release, exec));
      writeFileSync(join(target, "initrd"), zstdCompressSync(early));
      cpSync(join(packages, "boot", `vmlinuz-${release}`), join(target, "vmlinuz"));
      writeTree(join(target, "root"), await workerRoot(packages, release, exec));
    },
  });
}

export interface WorkerDiskParts {
  /** What `workerBaseRecipe` made. */
  readonly base: string;
  /** Where from, and where it is in the root; `key` says what is in it. */
  readonly files: readonly { readonly from: string; readonly to: string; readonly key: string }[];
  /** Small ones that are made here. */
  readonly texts: Readonly<Record<string, string>>;
}

/** An ext4 file system, for many machines to read. */
export function workerDiskRecipe({ base, files, texts }: WorkerDiskParts, exec: Exec): ImageRecipe {
  return {
    name: "worker",
    suffix: ".ext4",
    inputs: async () => [
      `base ${basename(base)}`,
      ...files.map(({ to, key }) => `${to} ${key}`).toSorted(),
      ...Object.entries(texts).map(([path, text]) => `${path} ${text}`),
    ],
    build: async (folder, target, say) => {
      say("making the disk that workers start from");
      const root = join(folder, "root");
      cpSync(join(base, "root"), root, { recursive: true, verbatimSymlinks: true });
      const place = (path: string): string => join(root, path);
      for (const { from, to } of files) {
        mkdirSync(dirname(place(to)), { recursive: true });
        cpSync(from, place(to), { dereference: true });
      }
      for (const [path, text] of Object.entries(texts)) writeFileSync(place(path), text);
      const bytes = files.reduce((sum, { from }) => sum + statSync(from).size, 64 * MIB);
      writeFileSync(target, "");
      const size = `${Math.ceil((bytes * 1.1) / 1024)}k`;
      const plain = "-q -F -t ext4 -O ^has_journal -m 0 -L gpve-worker -d".split(" ");
      await exec("mke2fs", [...plain, root, target, size]);
    },
  };
}

function writeTree(folder: string, entries: readonly CpioEntry[]): void {
  mkdirSync(folder);
  for (const { path, kind, data = new Uint8Array(), executable } of entries) {
    const target = join(folder, path);
    mkdirSync(dirname(target), { recursive: true });
    if (kind === "folder") mkdirSync(target, { recursive: true });
    else if (kind === "link") symlinkSync(Buffer.from(data).toString(), target);
    else writeFileSync(target, data, { mode: executable === true ? 0o755 : 0o644 });
  }
}
