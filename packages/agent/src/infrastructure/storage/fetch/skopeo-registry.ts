// Container registries through skopeo, as PVE uses them: its policy, its trust in certificates, its list of registries.
import { mkdir, rm } from "node:fs/promises";
import { MINIMAL_ENV, type Exec } from "@gpve/kit/exec.ts";

export interface SkopeoRegistryDeps {
  readonly exec: Exec;
  /** Proxies and certificates of this process, which its children go by too. */
  readonly env?: Readonly<Record<string, string | undefined>>;
}

const PASSED_ON = ["HTTPS_PROXY", "HTTP_PROXY", "NO_PROXY", "SSL_CERT_FILE", "SSL_CERT_DIR"];
const PULL_TIMEOUT_MS = 6 * 3600_000;

export class SkopeoRegistry {
  readonly #exec: Exec;
  readonly #env: Readonly<Record<string, string>>;

  constructor({ exec, env = {} }: SkopeoRegistryDeps) {
    this.#exec = exec;
    const passed = PASSED_ON.flatMap((name) => {
      const value = env[name] ?? env[name.toLowerCase()];
      return value === undefined ? [] : [[name, value] as const];
    });
    this.#env = { ...MINIMAL_ENV, ...Object.fromEntries(passed) };
  }

  async pull(
    reference: string,
    path: string,
    { signal, say }: { readonly signal: AbortSignal; readonly say: (line: string) => void },
  ): Promise<void> {
    // Its own scratch files go where they are found again when it is killed.
    await mkdir(workFolder(path), { recursive: true, mode: 0o700 });
    await this.#exec("skopeo", ["copy", `docker://${reference}`, `oci-archive:${path}`], {
      signal,
      timeoutMs: PULL_TIMEOUT_MS,
      env: { ...this.#env, TMPDIR: workFolder(path) },
      onLine: say,
    });
  }

  async discard(path: string): Promise<void> {
    await rm(path, { force: true });
    await rm(workFolder(path), { recursive: true, force: true });
  }

  async tags(reference: string, signal: AbortSignal): Promise<readonly string[]> {
    const { stdout } = await this.#exec("skopeo", ["list-tags", `docker://${reference}`], {
      signal,
      env: this.#env,
    });
    const { Tags: tags } = JSON.parse(stdout) as { Tags?: readonly string[] };
    return tags ?? [];
  }
}

function workFolder(path: string): string {
  return `${path}.work`;
}
