// A folder of a server, mounted here. A server that hangs hangs whoever touches the folder, so a program of its own does
// that first, and is given up after a while: nothing of this process goes there before it has answered.
import { readFile, realpath } from "node:fs/promises";
import { AppError, messageOf } from "@gpve/contracts/errors.ts";
import { given } from "@gpve/contracts/given.ts";
import { storageRefused } from "@gpve/domain/storage/failures.ts";
import type { NetworkMount } from "@gpve/domain/storage/network-mount.ts";
import type { StorageStatus } from "@gpve/domain/storage/plugin.ts";
import type { Exec, ExecResult } from "@gpve/kit/exec.ts";
import { parseMounts, type Mount } from "../../host/real-place.ts";
import { makeDirectory } from "../dir/make-directory.ts";
import { withCredentials } from "./credentials-file.ts";

export interface ServerFolderDeps {
  readonly exec: Exec;
  readonly mount: NetworkMount;
  /** Of who logs in. */
  readonly password: () => Promise<string | undefined>;
  /** A folder that only we can look into. */
  readonly secretFolder: string;
  /** The text of /proc/self/mountinfo. */
  readonly mounts?: (() => Promise<string>) | undefined;
  readonly patienceMs?: number | undefined;
  readonly now?: () => number;
}

const LOOK_MS = 4_000;
const MOUNT_MS = 20_000;
/** One answer serves the steps of one piece of work. */
const FRESH_MS = 1_000;
const POINT_MODE = 0o755;

export class ServerFolder {
  readonly #deps: ServerFolderDeps;
  readonly #now: () => number;
  /** A program that was given up and is still there: no other is sent after it. */
  #stuck: Promise<unknown> | undefined;
  #mounting: Promise<void> | undefined;
  #seen: { readonly at: number; readonly status: StorageStatus } | undefined;

  constructor(deps: ServerFolderDeps) {
    this.#deps = deps;
    this.#now = deps.now ?? (() => performance.now());
  }

  /** Mounts it where it is not, and looks whether the server answers. */
  async reach(): Promise<StorageStatus> {
    if (this.#seen !== undefined && this.#now() - this.#seen.at < FRESH_MS) return this.#seen.status;
    this.#seen = undefined;
    if (!(await this.isMounted())) {
      this.#mounting ??= this.#mount().finally(() => (this.#mounting = undefined));
      await this.#mounting;
    }
    const { stdout } = await this.#child("stat", ["-f", "-c", "%S %b %f %a", this.#deps.mount.point]);
    const [size = 0, blocks = 0, free = 0, avail = 0] = stdout.trim().split(" ").map(Number);
    const status = {
      active: blocks > 0,
      total: blocks * size,
      used: (blocks - free) * size,
      avail: avail * size,
    };
    this.#seen = { at: this.#now(), status };
    return status;
  }

  /** Throws when one of these folders is a link, which would lead out of what was mounted. */
  async requirePlain(folders: readonly string[]): Promise<void> {
    if (folders.length === 0) return;
    const { stdout } = await this.#child("realpath", ["-m", "--", ...folders]);
    const real = stdout.trimEnd().split("\n");
    const led = folders.find((folder, at) => real[at] !== folder);
    if (led !== undefined)
      throw storageRefused(
        `storage '${this.#deps.mount.storage}' cannot use ${led}: it is a link on its server, and links are not followed`,
      );
  }

  async makeFolders(folders: readonly string[]): Promise<void> {
    if (folders.length > 0) await this.#child("mkdir", ["-p", "-m", "0755", "--", ...folders]);
  }

  async isMounted(): Promise<boolean> {
    const { mount } = this.#deps;
    const found = (await this.#table()).findLast(({ point }) => point === mount.point);
    if (found === undefined) return false;
    const isOurs = found.fsType.replace(/^nfs4$/, "nfs").replace(/^smb3$/, "cifs") === mount.fsType;
    if (isOurs && plainSource(found.source ?? "") === plainSource(mount.source)) return true;
    throw unavailable(
      mount,
      `${mount.point} has '${found.source ?? ""}' (${found.fsType}) mounted, not '${mount.source}': unmount it`,
    );
  }

  async unmount(): Promise<void> {
    this.#seen = undefined;
    if (await this.isMounted()) await this.#child("umount", ["--", this.#deps.mount.point], MOUNT_MS);
  }

  async #mount(): Promise<void> {
    const { mount, password, secretFolder } = this.#deps;
    const { point, source, fsType, login } = mount;
    await makeDirectory(point, POINT_MODE);
    // Nothing is mounted there, so looking costs nothing.
    const real = await realpath(point);
    if (real !== point)
      throw storageRefused(`storage '${mount.storage}' cannot be mounted on ${point}: it really is ${real}`);
    const run = async (options: readonly string[]): Promise<void> => {
      await this.#child("mount", ["-t", fsType, "-o", options.join(","), "--", source, point], MOUNT_MS);
    };
    if (fsType === "nfs") return run(mount.options);
    if (login === undefined) return run(["guest", ...mount.options]);
    const secret = await password();
    if (secret === undefined)
      throw unavailable(mount, `no password is known for user '${login.username}': set it again`);
    await withCredentials(secretFolder, mount.storage, login, secret, (file) =>
      run([`credentials=${file}`, ...mount.options]),
    );
  }

  async #table(): Promise<Mount[]> {
    const read = this.#deps.mounts ?? (() => readFile("/proc/self/mountinfo", "utf8"));
    return parseMounts(await read());
  }

  /** Whatever becomes of the program, there is an answer in time. */
  async #child(
    program: string,
    args: readonly string[],
    patienceMs = this.#deps.patienceMs ?? LOOK_MS,
  ): Promise<ExecResult> {
    const { exec, mount } = this.#deps;
    if (this.#stuck !== undefined)
      throw unavailable(
        mount,
        `its server does not answer: '${program}' was not tried, another one still waits`,
      );
    const timeout = Promise.withResolvers<never>();
    const timer = setTimeout(
      () => timeout.reject(unavailable(mount, `its server does not answer within ${patienceMs / 1000} s`)),
      patienceMs,
    );
    const work = exec(program, args, { timeoutMs: patienceMs });
    let isOver = false;
    const over = (): void => {
      isOver = true;
      this.#stuck = undefined;
    };
    const ended = work.then(over, over);
    try {
      return await Promise.race([work, timeout.promise]);
    } catch (err) {
      if (!isOver) this.#stuck = ended;
      const told = err instanceof AppError && err.code !== "node.unavailable" ? reasonOf(err) : undefined;
      throw told === undefined ? err : unavailable(mount, told, err);
    } finally {
      clearTimeout(timer);
    }
  }
}

/** The last words of the program, without its name before every line. */
function reasonOf(err: AppError): string {
  if (err.code === "request.timeout") return "its server does not answer in time";
  const said = err.data?.["stderr"];
  const lines =
    typeof said === "string"
      ? said
          .trim()
          .split("\n")
          .filter((line) => line.trim() !== "")
      : [];
  return lines.length === 0 ? messageOf(err) : lines.slice(0, 3).join("; ");
}

function unavailable({ storage, source }: NetworkMount, why: string, cause?: unknown): AppError {
  return new AppError("node.unavailable", `storage '${storage}' (${source}) is not online: ${why}`, {
    pveStatus: 500,
    ...given({ cause }),
  });
}

function plainSource(source: string): string {
  return source.replace(/\/+$/, "");
}
