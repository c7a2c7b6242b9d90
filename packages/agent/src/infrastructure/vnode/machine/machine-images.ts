// What the machine of a worker is started from: kernel, first archive, and the disk with the programs of its version.
import { createHash } from "node:crypto";
import { createReadStream, existsSync, readdirSync, readFileSync, statSync } from "node:fs";
import { join } from "node:path";
import { pipeline } from "node:stream/promises";
import { messageOf } from "@gpve/contracts/errors.ts";
import { given } from "@gpve/contracts/given.ts";
import type { Exec } from "@gpve/kit/exec.ts";
import type { Logger } from "@gpve/kit/logger.ts";
import { cachedImage } from "../../images/image-cache.ts";
import { findLibraries } from "../../images/package-files.ts";
import {
  workerBaseRecipe,
  type WorkerDiskParts,
  workerDiskRecipe,
} from "../../images/worker/build-worker.ts";
import { workerImages, type WorkerProgram } from "../vnode-images.ts";

export interface MachineImagesDeps {
  /** Where built images are kept. */
  readonly cache: string;
  /** Archives of containers' images. */
  readonly imageFolder: string;
  readonly exec: Exec;
  readonly log: Logger;
  readonly program: WorkerProgram;
  readonly kubernetes: (version: string, program: string) => string;
}

export interface MachineImage {
  readonly kernel: string;
  readonly initrd: string;
  readonly root: string;
}

const CONTAINERD = ["containerd", "containerd-shim-runc-v2", "ctr"];
const PLUGINS = ["bridge", "host-local", "loopback", "portmap"];

export class MachineImages {
  readonly #deps: MachineImagesDeps;
  readonly #sums = new Map<string, string>();

  constructor(deps: MachineImagesDeps) {
    this.#deps = deps;
  }

  /** Built where it is not there. */
  async of(version: string, signal?: AbortSignal): Promise<MachineImage> {
    const { cache, exec } = this.#deps;
    const base = await this.#base(signal);
    const disk = workerDiskRecipe({ base, ...(await this.#parts(base, version)) }, exec);
    const { path } = await cachedImage(disk, cache, { ...given({ signal }), say: this.#say });
    return { kernel: join(base, "vmlinuz"), initrd: join(base, "initrd"), root: path };
  }

  /** Where Debian's packages cannot be had, one that was built before serves. */
  async #base(signal: AbortSignal | undefined): Promise<string> {
    const { cache, exec, log } = this.#deps;
    try {
      const options = { ...given({ signal }), say: this.#say };
      return (await cachedImage(workerBaseRecipe(exec), cache, options)).path;
    } catch (err) {
      const [before] = builtBefore(cache);
      if (before === undefined || signal?.aborted === true) throw err;
      log.warn(
        { err: messageOf(err) },
        "the machine of workers cannot be built anew: the one before is taken",
      );
      return before;
    }
  }

  /** A program is put down once and never written again. */
  async #sum(path: string): Promise<string> {
    const { size, mtimeMs, ino } = statSync(path);
    const id = `${path} ${size} ${mtimeMs} ${ino}`;
    const sum = this.#sums.get(id) ?? (await sumOf(path));
    this.#sums.set(id, sum);
    return sum;
  }

  readonly #say = (line: string): void => this.#deps.log.info({}, line);

  async #parts(base: string, version: string): Promise<Omit<WorkerDiskParts, "base">> {
    const { program, kubernetes, imageFolder } = this.#deps;
    const images = await workerImages(imageFolder, program);
    const file = (from: string, to: string) => ({ from, to: `opt/gpve/${to}` });
    const programs = [
      ...["kubelet", "kube-proxy"].map((name) => file(kubernetes(version, name), `bin/${name}`)),
      ...CONTAINERD.map((name) => file(program("containerd", name), `bin/${name}`)),
      file(program("runc", "runc"), "bin/runc"),
      ...PLUGINS.map((name) => file(program("cni-plugins", name), `cni/${name}`)),
    ];
    const files = [
      ...programs,
      ...librariesOf(programs, join(base, "root")),
      ...images.map(({ file: from }, at) => file(from, `images/${at}.tar`)),
    ];
    const keyed = [];
    for (const each of files) keyed.push({ ...each, key: await this.#sum(each.from) });
    return {
      files: keyed,
      texts: Object.fromEntries(images.map(({ name }, at) => [`opt/gpve/images/${at}.name`, `${name}\n`])),
    };
  }
}

/** Some programs (runc) ask for libraries. This machine runs them, so it has those; what the root has already stays. */
function librariesOf(
  programs: readonly { readonly from: string }[],
  root: string,
): readonly { readonly from: string; readonly to: string }[] {
  const found = new Map<string, string>();
  for (const { from } of programs) findLibraries("/", readFileSync(from), found);
  return [...found].map(([to, from]) => ({ from, to })).filter(({ to }) => !existsSync(join(root, to)));
}

/** Whole ones, the newest first. */
function builtBefore(cache: string): readonly string[] {
  if (!existsSync(cache)) return [];
  return readdirSync(cache)
    .filter((name) => /^worker-base-[0-9a-f]{16}$/.test(name))
    .map((name) => join(cache, name))
    .toSorted((a, b) => statSync(b).mtimeMs - statSync(a).mtimeMs);
}

/** Their names change from one installation to the next, and nobody should make the same disk twice for that. */
async function sumOf(path: string): Promise<string> {
  const hash = createHash("sha256");
  await pipeline(createReadStream(path), hash);
  return hash.digest("hex");
}
