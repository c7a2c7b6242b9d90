// Container registries through skopeo, as PVE uses them: its policy, its trust in certificates, its list of registries. It
// unpacks what strangers serve, so it runs as nobody, sees what it needs to fetch and one folder, and fills no more of the
// storage than there is room for.
import { existsSync } from "node:fs";
import { mkdir, readdir, rename, rm, stat } from "node:fs/promises";
import { join } from "node:path";
import { isAppError, messageOf } from "@gpve/contracts/errors.ts";
import { storageRefused } from "@gpve/domain/storage/failures.ts";
import { withHeldFile } from "@gpve/kit/held-file.ts";
import type { Fetching, ImageTools } from "../../image-tools/image-tools.ts";
import { freeRoom, tooLarge, type Room } from "./room.ts";

export interface SkopeoRegistryDeps {
  readonly tools: ImageTools;
  /** Proxies and certificates of this process, which its children go by too. */
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly room?: Room;
  /** Where it keeps itself while it asks for tags. */
  readonly scratch: string;
}

const PASSED_ON = ["HTTPS_PROXY", "HTTP_PROXY", "NO_PROXY", "SSL_CERT_FILE", "SSL_CERT_DIR"];
const PULL_TIMEOUT_MS = 6 * 3600_000;
const LOOK_EVERY_MS = 250;
const MOST_TAGS_BYTES = 4 * 1024 * 1024;
const AUTHORITIES = ["/etc/ssl/certs", "/usr/share/ca-certificates", "/usr/local/share/ca-certificates"];
const ADDRESSES = ["/etc/resolv.conf", "/etc/hosts", "/etc/nsswitch.conf"];
const REGISTRIES = ["/etc/containers", "/usr/share/containers", "/etc/docker/certs.d"];

export class SkopeoRegistry {
  readonly #tools: ImageTools;
  readonly #room: Room;
  readonly #scratch: string;
  readonly #env: Readonly<Record<string, string>>;
  #asked = 0;

  constructor({ tools, env, room = freeRoom, scratch }: SkopeoRegistryDeps) {
    this.#tools = tools;
    this.#room = room;
    this.#scratch = scratch;
    const passed = PASSED_ON.flatMap((name) => {
      const value = env[name] ?? env[name.toLowerCase()];
      return value === undefined ? [] : [[name, value] as const];
    });
    this.#env = Object.fromEntries(passed);
  }

  async pull(
    reference: string,
    path: string,
    { signal, say }: { readonly signal: AbortSignal; readonly say: (line: string) => void },
  ): Promise<void> {
    const work = workFolder(path);
    // What a pull that was killed left there is another user's.
    await rm(work, { recursive: true, force: true });
    await mkdir(work, { recursive: true, mode: 0o700 });
    const made = join(work, "image.tar");
    const bytes = await this.#room(path);
    const full = new AbortController();
    const watch = this.#watch(work, path, bytes, full);
    try {
      const argv = ["--tmpdir", work, "copy", `docker://${reference}`, `oci-archive:${made}`];
      await this.#tools("skopeo", argv, [], {
        signal: AbortSignal.any([signal, full.signal]),
        timeoutMs: PULL_TIMEOUT_MS,
        limits: { fsize: bytes },
        fetching: this.#fetching(work),
        onLine: say,
      });
    } catch (err) {
      if (full.signal.aborted || isTooLarge(err)) throw tooLarge(bytes, err);
      throw err;
    } finally {
      clearInterval(watch);
    }
    // From here on it lies where nobody else writes: what was moved is what is looked at.
    await rename(made, path);
    await withHeldFile(path, async ({ facts, chown, chmod }) => {
      if (!facts.isFile()) throw storageRefused(`what skopeo made of '${reference}' is no plain file`);
      if (process.getuid?.() === 0) await chown(0, 0);
      await chmod(0o600);
    });
  }

  async discard(path: string): Promise<void> {
    await rm(path, { force: true });
    await rm(workFolder(path), { recursive: true, force: true });
  }

  async tags(reference: string, signal: AbortSignal): Promise<readonly string[]> {
    const work = join(this.#scratch, `tags-${process.pid}-${this.#asked++}`);
    await mkdir(work, { recursive: true, mode: 0o700 });
    try {
      const { stdout } = await this.#tools("skopeo", ["list-tags", `docker://${reference}`], [], {
        signal,
        maxOutputBytes: MOST_TAGS_BYTES,
        limits: { fsize: MOST_TAGS_BYTES },
        fetching: this.#fetching(work),
      });
      const { Tags: tags } = JSON.parse(stdout) as { Tags?: readonly string[] };
      return tags ?? [];
    } finally {
      await rm(work, { recursive: true, force: true });
    }
  }

  #fetching(workFolder: string): Fetching {
    const own = [this.#env["SSL_CERT_FILE"], this.#env["SSL_CERT_DIR"]].filter((path) => path !== undefined);
    return {
      workFolder,
      reads: [...AUTHORITIES, ...ADDRESSES, ...REGISTRIES, ...own].filter((path) => existsSync(path)),
      env: { ...this.#env, TMPDIR: workFolder, HOME: workFolder },
    };
  }

  /** Each file is bounded by the kernel, all of them together by us. */
  #watch(work: string, path: string, bytes: number, full: AbortController): NodeJS.Timeout {
    return setInterval(() => {
      Promise.all([bytesIn(work), this.#room(path)]).then(
        ([used, left]) => (used > bytes || left === 0 ? full.abort() : undefined),
        () => full.abort(),
      );
    }, LOOK_EVERY_MS);
  }
}

/** Of all files below a folder; those that go away meanwhile take no room. */
async function bytesIn(folder: string): Promise<number> {
  const names = await readdir(folder, { recursive: true });
  const sizes = await Promise.all(
    names.map((name) =>
      stat(join(folder, name)).then(
        ({ blocks }) => blocks * 512,
        () => 0,
      ),
    ),
  );
  return sizes.reduce((sum, size) => sum + size, 0);
}

function isTooLarge(err: unknown): boolean {
  return isAppError(err, "internal.error") && /SIGXFSZ|file too large/i.test(messageOf(err));
}

function workFolder(path: string): string {
  return `${path}.work`;
}
