// Components of a test that goes from one version of Kubernetes to the next: the minor before the newest where this
// machine has it, else the newest again under the number of the patch before, which its programs then say they are.
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { ComponentFolder } from "@gpve/agent/infrastructure/component/component-folder.ts";
import { systemClock } from "@gpve/kit/clock.ts";
import { exec } from "@gpve/kit/exec.ts";
import { cachedVersions, components } from "./vclusters.ts";

export interface TwoVersions {
  /** Links to what this machine has, and what is not for anybody else. */
  readonly folder: string;
  readonly from: string;
  readonly to: string;
  readonly remove: () => void;
}

export async function twoVersions(): Promise<TwoVersions> {
  const [newest = "", ...others] = cachedVersions();
  const [major = 0, minor = 0, patch = 0] = newest.split(".").map(Number);
  const before = others.find((version) => version.startsWith(`${major}.${minor - 1}.`));
  const folder = mkdtempSync(join(dirname(components), "versions-"));
  for (const name of readdirSync(components).filter((each) => !each.startsWith(".")))
    await exec("cp", ["-alT", join(components, name), join(folder, name)]);
  const remove = (): void => rmSync(folder, { recursive: true, force: true });
  if (before !== undefined) return { folder, from: before, to: newest, remove };
  const other = `${major}.${minor}.${patch > 0 ? patch - 1 : patch + 1}`;
  await relabel(new ComponentFolder(folder, systemClock), newest, other);
  return patch > 0
    ? { folder, from: other, to: newest, remove }
    : { folder, from: newest, to: other, remove };
}

/** A version that was stamped into a program is changed in place: it has as many characters. */
async function relabel(store: ComponentFolder, version: string, other: string): Promise<void> {
  const installed = store.get("kubernetes", version);
  if (installed === undefined || version.length !== other.length)
    throw new Error(`Kubernetes ${version} cannot be called ${other}`);
  const work = store.workFolder("relabel");
  mkdirSync(work, { recursive: true });
  const programs = Object.keys(installed.programs);
  for (const program of programs) {
    const bytes = readFileSync(store.program("kubernetes", version, program));
    const [old, fresh] = [Buffer.from(`v${version}`), Buffer.from(`v${other}`)];
    for (let at = bytes.indexOf(old); at >= 0; at = bytes.indexOf(old, at + old.length))
      fresh.copy(bytes, at);
    writeFileSync(join(work, program), bytes, { mode: 0o755 });
  }
  await store.put({ name: "kubernetes", version: other, origin: installed.origin }, work, programs);
  store.discard("relabel");
}
