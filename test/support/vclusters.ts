// Virtual clusters in tests: whether there can be any, and how they are spoken to.
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { defaultComponentFolder } from "./build-caches.ts";
import { compareVersions } from "@gpve/domain/component/component.ts";
import { WORKER_COMPONENTS } from "@gpve/domain/vcluster/vnode/images.ts";
import { exec, MINIMAL_ENV } from "@gpve/kit/exec.ts";
import { goSettings } from "./go-settings.ts";
import { mainFile, nodeBinary, startGpve, type Gpve } from "./gpve.ts";

export const components = defaultComponentFolder(process.env);

export interface Said {
  readonly code: number;
  readonly out: string;
  readonly err: string;
}

/** Those that lie in this machine's cache, newest first. */
export function cachedVersions(component = "kubernetes"): readonly string[] {
  try {
    return readdirSync(join(components, component))
      .filter((name) => /^\d/.test(name))
      .toSorted(compareVersions)
      .toReversed();
  } catch {
    return [];
  }
}

/** All that a cluster with workers is made of: a run that was cut off may have left a part of it. */
export const areComponentsCached = ["kubernetes", ...WORKER_COMPONENTS].every(
  // One that comes as a Debian package has that for a version.
  (component) => cachedVersions(component).length > 0 || existsSync(join(components, component, "debian")),
);

/** Where they are not cached, test/prepare brings them before any test runs. */
export const canRunClusters = process.getuid?.() === 0 && areComponentsCached;

export function startWithComponents(args: readonly string[] = []): Promise<Gpve> {
  const env = { GPVE_COMPONENTS: components, HOME: process.env["HOME"] ?? "/", ...goSettings() };
  return startGpve({ env, args });
}

/** What a command says that fails is printed: an assertion on its code alone tells nobody why. */
function told(command: string, said: Said): Said {
  if (said.code !== 0) console.info(`${command} ended with ${said.code}: ${said.err.slice(-2_000)}`);
  return said;
}

export async function ctl(gpve: Pick<Gpve, "data">, ...argv: readonly string[]): Promise<Said> {
  const { code, stdout, stderr } = await exec(nodeBinary, [mainFile, "ctl", "--data", gpve.data, ...argv], {
    timeoutMs: 45 * 60_000, // the first cluster of a machine waits until Kubernetes is built
    okCodes: Array.from({ length: 131 }, (_none, at) => at),
  });
  return told(`gpvectl ${argv.join(" ")}`, { code, out: stdout, err: stderr });
}

/** An unmodified kubectl, without a flag that would help it. */
export async function kubectl(kubeconfig: string, ...argv: readonly string[]): Promise<Said> {
  const [version = ""] = cachedVersions();
  const program = join(components, "kubernetes", version, "kubectl");
  const { code, stdout, stderr } = await exec(program, argv, {
    env: { ...MINIMAL_ENV, KUBECONFIG: kubeconfig, HOME: "/tmp" },
    okCodes: [0, 1],
    timeoutMs: 300_000,
  });
  return told(`kubectl ${argv.join(" ")}`, { code, out: stdout, err: stderr });
}

/** Of a part of a cluster's control plane, or of the processes that all share: store, proxy. */
export function pidOf({ data }: Pick<Gpve, "data">, id: string): number {
  const state = readFileSync(join(data, `vclusters/run/guests/${id}/state`), "utf8");
  return (JSON.parse(state) as { pid: number }).pid;
}

/** Resident memory that is nobody else's. */
export function privateMiB(pid: number): number {
  const text = readFileSync(`/proc/${pid}/smaps_rollup`, "utf8");
  const kib = [...text.matchAll(/^Private_(?:Clean|Dirty):\s+(\d+) kB/gm)].map((match) => Number(match[1]));
  return Math.round(kib.reduce((sum, each) => sum + each, 0) / 1024);
}
