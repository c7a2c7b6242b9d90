// Whether this host has a Kata that works, found by asking it: its own check, and what gpve wants of its settings.
import { AppError, messageOf } from "@gpve/contracts/errors.ts";
import type { Capability } from "@gpve/domain/node/runtime.ts";
import { invalidSpec } from "@gpve/domain/vcluster/invalid-spec.ts";
import { KATA_CAPABILITY, kataRefused, type KataRuntime } from "@gpve/domain/vcluster/vnode/kata.ts";
import type { Exec } from "@gpve/kit/exec.ts";
import { unavailable } from "../facts/capability-table.ts";
import type { HostFiles } from "../facts/host-files.ts";

const FOLDERS = ["/usr/local/bin", "/usr/bin", "/opt/kata/bin"];
/** As Kata looks for them, then where its release puts them. */
const CONFIGS = [
  "/etc/kata-containers/configuration.toml",
  "/usr/share/defaults/kata-containers/configuration.toml",
  "/opt/kata/share/defaults/kata-containers/configuration.toml",
];
const INSTALL = "install Kata Containers (its release unpacks to /opt/kata); gpve brings none";
const CHECK_MS = 30_000;

export interface KataHost {
  readonly exec: Exec;
  readonly files: Pick<HostFiles, "read" | "list" | "mtime">;
}

/** Throws what is missing, and in `data.fix` what to do. */
export async function findKata(host: KataHost): Promise<KataRuntime> {
  const shim = await program(host, "containerd-shim-kata-v2");
  const runtime = await program(host, "kata-runtime");
  const config = await firstThere(host, CONFIGS);
  if (config === undefined)
    throw noKata(`Kata has no settings: none of ${CONFIGS.join(", ")} is there`, INSTALL);
  if (!(await holdsMachines(host, config)))
    throw noKata(
      `${config} does not say sandbox_cgroup_only=true: the machines of pods would be outside the bounds of their worker`,
      `set sandbox_cgroup_only=true below [runtime] in ${config}`,
    );
  try {
    await host.exec(runtime, ["--config", config, "check", "--no-network-checks"], { timeoutMs: CHECK_MS });
  } catch (cause) {
    throw noKata(
      `kata-runtime check says that this host cannot run it: ${messageOf(cause)}`,
      "turn on virtualisation (/dev/kvm) and load the modules that it names",
    );
  }
  return { shim, config };
}

/** Throws what a request for level L2 is refused with. `runsKvm`: whether guests really run under it. */
export async function requireKata(
  find: () => Promise<KataRuntime>,
  runsKvm: () => Promise<boolean>,
): Promise<void> {
  await find().catch((err: unknown) => {
    throw invalidSpec("isolationLevel", kataRefused(messageOf(err)));
  });
  if (!(await runsKvm()))
    throw invalidSpec("isolationLevel", kataRefused("Kata is there, KVM does not work"));
}

export async function kataCapability(host: KataHost): Promise<Capability> {
  try {
    const { shim, config } = await findKata(host);
    return { name: KATA_CAPABILITY, available: true, detail: `${shim} with ${config}` };
  } catch (err) {
    const fix = err instanceof AppError ? err.data["fix"] : undefined;
    return unavailable(KATA_CAPABILITY, messageOf(err), typeof fix === "string" ? fix : INSTALL);
  }
}

/** Files beside the settings are read after them, by their names. */
async function holdsMachines({ files }: KataHost, config: string): Promise<boolean> {
  const more = config.replace(/[^/]+$/, "config.d");
  const names = (await files.list(more)).filter((name) => name.endsWith(".toml"));
  const texts = await Promise.all(
    [config, ...names.map((name) => `${more}/${name}`)].map((path) => files.read(path)),
  );
  const said = texts.flatMap((text) => [
    ...(text ?? "").matchAll(/^\s*sandbox_cgroup_only\s*=\s*(true|false)\b/gm),
  ]);
  return said.at(-1)?.[1] === "true";
}

async function program(host: KataHost, name: string): Promise<string> {
  const found = await firstThere(
    host,
    FOLDERS.map((folder) => `${folder}/${name}`),
  );
  if (found === undefined) throw noKata(`${name} is in none of ${FOLDERS.join(", ")}`, INSTALL);
  return found;
}

async function firstThere({ files }: KataHost, paths: readonly string[]): Promise<string | undefined> {
  for (const path of paths) if ((await files.mtime(path)) !== undefined) return path;
  return undefined;
}

function noKata(message: string, fix: string): AppError {
  return new AppError("feature.unsupported", message, { data: { fix } });
}
