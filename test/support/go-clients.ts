// Clients in Go, built from pinned modules once and kept in the cache of foreign clients.
import { existsSync, readFileSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { exec, type ExecOptions } from "@gpve/kit/exec.ts";
import { clientsFolder, made, ownEnv } from "./foreign-clients.ts";

/** What the newest of the modules asks for. */
const NEEDED: readonly [number, number] = [1, 26];
export const BUILD_MS = 900_000;

const GO = ["/usr/local/go/bin/go", "/usr/lib/go/bin/go", "/usr/bin/go"].find((path) => existsSync(path));

/** Why the clients cannot be built, or undefined. */
export async function lacksGo(): Promise<string | undefined> {
  const hint = `needs Go ${NEEDED.join(".")} or newer in /usr/local/go or /usr/bin`;
  if (GO === undefined) return hint;
  const { stdout } = await exec(GO, ["env", "GOVERSION"], { env: ownEnv() });
  const [, major = 0, minor = 0] = (/^go(\d+)\.(\d+)/.exec(stdout) ?? []).map(Number);
  const fits = major > NEEDED[0] || (major === NEEDED[0] && minor >= NEEDED[1]);
  return fits ? undefined : `${hint}, not ${stdout.trim()}`;
}

/** The path of a program: package `target` of the module in the clients' folder. */
async function goProgram(folder: string, target: string, name: string): Promise<string> {
  const module = join(clientsFolder, folder);
  const sources = readdirSync(module).filter((file) => /^go\.(mod|sum)$|\.go$/.test(file));
  const pins = Buffer.concat(sources.toSorted().map((file) => readFileSync(join(module, file))));
  const place = await made(name, pins, async (fresh) => {
    const options: ExecOptions = {
      cwd: module,
      timeoutMs: BUILD_MS,
      env: { ...ownEnv(), CGO_ENABLED: "0" },
    };
    await exec(GO ?? "go", ["build", "-mod=readonly", "-o", join(fresh, name), target], options);
  });
  return join(place, name);
}

/** Every one that a test uses; the path of each, built where it is not there yet. */
export const goPrograms = {
  "terraform-provider-proxmox": () =>
    goProgram("bpg", "github.com/bpg/terraform-provider-proxmox", "terraform-provider-proxmox"),
  tofu: () => goProgram("opentofu", "github.com/opentofu/opentofu/cmd/tofu", "tofu"),
  talosctl: () => goProgram("talosctl", "github.com/siderolabs/talos/cmd/talosctl", "talosctl"),
  helm: () => goProgram("helm", "helm.sh/helm/v3/cmd/helm", "helm"),
  "go-proxmox-round": () => goProgram("go-proxmox", ".", "go-proxmox-round"),
} as const;
