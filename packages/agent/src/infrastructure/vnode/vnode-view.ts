// What the programs of a worker see of this machine's files: the same, but with a /run, pods, logs and networks of their own.
// It is a mount namespace that is kept as a file, so that whoever is started later comes into the same one.
import { existsSync, mkdirSync, readFileSync, realpathSync, rmSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { AppError, messageOf } from "@gpve/contracts/errors.ts";
import { given } from "@gpve/contracts/given.ts";
import type { Exec, ExecResult } from "@gpve/kit/exec.ts";
import { KeyedQueue } from "@gpve/kit/keyed-queue.ts";
import { VOLUMES_FOLDER } from "@gpve/domain/vcluster/vnode/local-volumes.ts";
import { keepMountNamespace } from "./keep-mount-namespace.ts";
import { volumesBase, volumesFolder } from "./volumes-place.ts";

/** What kubelets want of a kernel. They are the machine's: a worker sees what it wants and changes nothing. */
const TUNABLES: Readonly<Record<string, string>> = {
  "vm/overcommit_memory": "1",
  "vm/panic_on_oom": "0",
  "kernel/panic": "10",
  "kernel/panic_on_oops": "1",
  "kernel/keys/root_maxkeys": "1000000",
  "kernel/keys/root_maxbytes": "25000000",
};

/** Folder of the worker -> where its programs look for it. */
const OWN: Readonly<Record<string, string>> = {
  kubelet: "/var/lib/kubelet",
  cni: "/var/lib/cni",
  "log/pods": "/var/log/pods",
  "log/containers": "/var/log/containers",
};

/** One at a time makes or removes a view: what is half made to one is left by a crash to another. */
const turns = new KeyedQueue();

export class VnodeView {
  readonly #folder: string;
  readonly #exec: Exec;

  /** Of one worker. */
  constructor(folder: string, exec: Exec) {
    this.#folder = folder;
    this.#exec = exec;
  }

  /** Of the namespace. */
  get file(): string {
    return join(this.#folder, "view", "mnt");
  }

  get isThere(): boolean {
    return mountPoints().includes(this.file);
  }

  /** The words that start a program in it. */
  enter(
    program: string,
    args: readonly string[],
  ): { readonly program: string; readonly args: readonly string[] } {
    return { program: "/usr/bin/nsenter", args: [`--mount=${this.file}`, "--", program, ...args] };
  }

  async run(program: string, args: readonly string[], signal?: AbortSignal): Promise<ExecResult> {
    const entered = this.enter(program, args);
    return this.#exec(entered.program, entered.args, {
      timeoutMs: 300_000,
      ...given({ signal }),
    });
  }

  /** `resolvConf`: a file with those whom it asks for names; an empty one leaves it those of this machine. */
  ensure(machineId: string, resolvConf: string): Promise<void> {
    return turns.run(this.file, () => this.#ensure(machineId, resolvConf));
  }

  remove(): Promise<void> {
    return turns.run(this.file, () => this.#remove());
  }

  async #ensure(machineId: string, resolvConf: string): Promise<void> {
    if (this.isThere) return;
    // Half of one, after a crash.
    await this.#remove();
    const view = join(this.#folder, "view");
    mkdirSync(view, { recursive: true, mode: 0o700 });
    // Whoever is new on this worker gets no address of those who were here before.
    rmSync(join(this.#folder, "cni"), { recursive: true, force: true });
    try {
      await this.#exec("mount", ["--bind", view, view]);
      // A namespace cannot be kept where mounts are told to others: it would be told to itself.
      await this.#exec("mount", ["--make-private", view]);
      writeFileSync(this.file, "");
      await keepMountNamespace(this.#exec, this.file);
      await this.#furnish(machineId, resolvConf);
    } catch (cause) {
      await this.#remove();
      throw new AppError("internal.error", `cannot make the view of a worker: ${messageOf(cause)}`, {
        cause,
      });
    }
  }

  async #remove(): Promise<void> {
    for (const path of mountPoints().filter((each) => each === this.file)) await this.#exec("umount", [path]);
    const view = join(this.#folder, "view");
    for (const path of mountPoints().filter((each) => each === view)) await this.#exec("umount", [path]);
  }

  async #furnish(machineId: string, resolvConf: string): Promise<void> {
    const mount = async (...args: readonly string[]): Promise<void> => void (await this.run("mount", args));
    await mount("-t", "tmpfs", "-o", "mode=0755,size=256m", "gpve-run", "/run");
    await this.run("mkdir", ["-p", "/run/lock", "/run/netns"]);
    for (const [name, target] of Object.entries(OWN)) {
      const own = join(this.#folder, name);
      mkdirSync(own, { recursive: true, mode: 0o755 });
      // An empty folder of this machine is what it is mounted on.
      mkdirSync(target, { recursive: true });
      await mount("--bind", own, target);
    }
    if (volumesBase(this.#folder) !== undefined) {
      const target = join(OWN["kubelet"] ?? "", VOLUMES_FOLDER);
      mkdirSync(join(this.#folder, "kubelet", VOLUMES_FOLDER), { recursive: true });
      await mount("--bind", volumesFolder(this.#folder), target);
    }
    const settings = join(this.#folder, "kernel");
    mkdirSync(settings, { recursive: true });
    for (const [name, value] of Object.entries(TUNABLES)) {
      const target = join("/proc/sys", name);
      if (!existsSync(target)) continue;
      const file = join(settings, name.replaceAll("/", "."));
      writeFileSync(file, `${value}\n`);
      await mount("--bind", file, target);
    }
    if (existsSync("/etc/machine-id")) {
      writeFileSync(join(settings, "machine-id"), `${machineId}\n`);
      await mount("--bind", join(settings, "machine-id"), "/etc/machine-id");
    }
    // Images are fetched by name, and what this machine lists may be itself, which the worker does not reach.
    if (existsSync("/etc/resolv.conf") && readFileSync(resolvConf, "utf8") !== "") {
      const target = realpathSync("/etc/resolv.conf");
      if (target.startsWith("/run/")) {
        await this.run("mkdir", ["-p", dirname(target)]);
        await this.run("cp", [resolvConf, target]);
      } else await mount("--bind", resolvConf, target);
    }
    // Volumes that the kubelet mounts must come to the containers.
    await mount("--make-rshared", "/");
  }
}

function mountPoints(): readonly string[] {
  return readFileSync("/proc/self/mountinfo", "utf8")
    .split("\n")
    .map((line) => (line.split(" ")[4] ?? "").replaceAll("\\040", " "));
}
