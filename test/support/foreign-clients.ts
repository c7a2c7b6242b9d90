// Clients nobody here wrote: what Debian has is installed by `./gpve test`; the rest is kept in a cache of its own.
import { createHash } from "node:crypto";
import { copyFileSync, existsSync, mkdirSync, mkdtempSync, readFileSync, renameSync, rmSync } from "node:fs";
import { dirname, join } from "node:path";
import { defaultImageCache } from "./build-caches.ts";
import { exec, MINIMAL_ENV } from "@gpve/kit/exec.ts";
import { root, type Credentials } from "./gpve.ts";

export const clientsFolder = join(root, "test/integration/clients");
export const DEBIAN_PYTHON = "/usr/bin/python3";

/** Says what a test file goes without. */
export function skipping(what: string, reason: string | undefined): boolean {
  if (reason !== undefined) console.warn(`SKIPPED: ${what}: ${reason}`);
  return reason !== undefined;
}

/** Why Debian's Python cannot load these, or undefined. */
export async function lacksPython(modules: string, packages: string): Promise<string | undefined> {
  return exec(DEBIAN_PYTHON, ["-c", `import ${modules}`]).then(
    () => undefined,
    () => `Python modules are missing; get them with: apt-get install ${packages}`,
  );
}

/** The Python of a virtual environment with the packages from PyPI that the file in the clients' folder pins. */
export async function pypiPython(pins = "requirements.txt"): Promise<string> {
  const file = join(clientsFolder, pins);
  const folder = await made("python", readFileSync(file), async (target) => {
    await exec(DEBIAN_PYTHON, ["-m", "venv", target], { timeoutMs: 300_000 });
    const pip = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--requirement", file];
    await exec(join(target, "bin/python"), pip, { timeoutMs: 300_000, env: ownEnv() });
  });
  return join(folder, "bin/python");
}

/** A folder whose node_modules hold the pinned npm clients that are not this project's own dependencies. */
export async function npmClients(pins = "npm"): Promise<string> {
  const files = ["package.json", "package-lock.json"].map((name) => join(clientsFolder, pins, name));
  const folder = await made("npm", Buffer.concat(files.map((file) => readFileSync(file))), async (target) => {
    for (const file of files) copyFileSync(file, join(target, file.split("/").at(-1) ?? ""));
    const args = ["ci", "--ignore-scripts", "--no-audit", "--no-fund"];
    await exec("npm", args, { cwd: target, timeoutMs: 300_000, env: ownEnv() });
  });
  return folder;
}

/** npm, pip and go find their settings and registries where the user keeps them. */
export function ownEnv(): Record<string, string> {
  const own = Object.entries(process.env).filter(([, value]) => value !== undefined);
  return { ...MINIMAL_ENV, ...(Object.fromEntries(own) as Record<string, string>) };
}

/** Made beside its place and moved there when whole; of several that make it at once, the first wins. */
export async function made(
  kind: string,
  pins: Uint8Array,
  make: (folder: string) => Promise<void>,
): Promise<string> {
  const hash = createHash("sha256").update(pins).digest("hex").slice(0, 16);
  const cache = join(dirname(defaultImageCache(process.env)), "clients");
  const folder = join(cache, `${kind}-${hash}`);
  if (existsSync(folder)) return folder;
  mkdirSync(cache, { recursive: true });
  const fresh = mkdtempSync(join(cache, `.${kind}-`));
  try {
    await make(fresh);
    renameSync(fresh, folder);
  } catch (err) {
    if (!existsSync(folder)) throw err;
  } finally {
    rmSync(fresh, { recursive: true, force: true });
  }
  return folder;
}

/** How a client logs in: who, and the secret that it reads from standard input. */
export function login(
  credentials: Credentials,
  how: "password" | "token",
): { readonly user: string; readonly input: string } {
  if (how === "password") return { user: credentials.username, input: credentials.password };
  const [user = "", input = ""] = credentials.token.split("=");
  return { user, input };
}
