// The root file system of a guest that lives in memory: busybox, programs with their libraries, modules of the kernel, scripts.
import { readFileSync } from "node:fs";
import { basename } from "node:path";
import type { Exec } from "@gpve/kit/exec.ts";
import { type CpioEntry, withFolders } from "./cpio-archive.ts";
import { moduleEntries } from "./module-entries.ts";
import { addLibraries, firstOf, uniqueEntries } from "./package-files.ts";

export interface GuestScript {
  readonly path: string;
  readonly text: string;
  readonly executable: boolean;
}

export interface MemoryRoot {
  readonly folders: readonly string[];
  /** "usr/sbin/qemu-ga", as Debian has them. */
  readonly programs: readonly string[];
  readonly modules: readonly string[];
  /** In the place of busybox' own where the names are the same. */
  readonly scripts: readonly GuestScript[];
  readonly links: Readonly<Record<string, string>>;
}

export async function memoryRoot(
  packages: string,
  release: string,
  exec: Exec,
  { folders, programs, modules, scripts, links }: MemoryRoot,
): Promise<CpioEntry[]> {
  const entries: CpioEntry[] = folders.map((path) => ({ path, kind: "folder" }));
  const file = (path: string, data: Uint8Array, executable = false): void => {
    entries.push({ path, kind: "file", data, executable });
  };
  const link = (path: string, to: string): void => {
    entries.push({ path, kind: "link", data: Buffer.from(to) });
  };
  const busybox = firstOf(packages, ["bin/busybox", "usr/bin/busybox"]);
  file("bin/busybox", readFileSync(busybox), true);
  const { stdout } = await exec(busybox, ["--list"]);
  const own = new Set(scripts.map(({ path }) => basename(path)));
  for (const applet of stdout
    .split("\n")
    .filter((name) => name !== "" && name !== "busybox" && !own.has(name))) {
    const folder = ["init", "poweroff", "reboot", "halt"].includes(applet) ? "sbin" : "bin";
    link(`${folder}/${applet}`, "/bin/busybox");
  }
  link("sbin/init", "/bin/busybox");
  const needed = new Map<string, Uint8Array>();
  for (const path of programs) {
    const program = readFileSync(firstOf(packages, [path, path.replace("/sbin/", "/bin/")]));
    file(path, program, true);
    addLibraries(packages, program, needed);
  }
  for (const [path, bytes] of needed) file(path, bytes, true);
  entries.push(...(await moduleEntries(packages, release, modules, exec)));
  for (const { path, text, executable } of scripts) file(path, Buffer.from(text), executable);
  for (const [path, to] of Object.entries(links)) link(path, to);
  return withFolders(uniqueEntries(entries));
}
