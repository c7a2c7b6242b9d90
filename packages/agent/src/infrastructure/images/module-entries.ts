import type { Exec } from "@gpve/kit/exec.ts";
import type { CpioEntry } from "./cpio-archive.ts";
import { collectModules, modulesAlias, modulesDep } from "./kernel-modules.ts";
import { moduleFolder } from "./package-files.ts";

/** Modules of a kernel, and modprobe's tables of them, as a root has them. */
export async function moduleEntries(
  packages: string,
  release: string,
  wanted: readonly string[],
  exec: Exec,
): Promise<CpioEntry[]> {
  const modules = await collectModules(moduleFolder(packages, release), wanted, exec);
  const home = `lib/modules/${release}`;
  const text = (name: string, data: string): CpioEntry => ({
    path: `${home}/${name}`,
    kind: "file",
    data: Buffer.from(data),
  });
  return [
    ...modules.map(({ name, bytes }): CpioEntry => ({
      path: `${home}/${name}.ko`,
      kind: "file",
      data: bytes,
    })),
    text("modules.dep", modulesDep(modules)),
    text("modules.alias", modulesAlias(modules)),
  ];
}
