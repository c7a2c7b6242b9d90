// Debian packages as building material: downloaded and unpacked into a folder, never installed, so that neither root
// nor a change of this machine is needed. apt checks signatures and checksums.
import { mkdirSync, statSync } from "node:fs";
import { join } from "node:path";
import { AppError } from "@gpve/contracts/errors.ts";
import type { Exec } from "@gpve/kit/exec.ts";

export interface PackageFile {
  readonly url: string;
  readonly file: string;
  /** As apt prints it, such as `SHA256:…`: equal text, equal package. */
  readonly checksum: string;
}

const NO_SANDBOX = ["-o", "APT::Sandbox::User=root"]; // else root's apt complains about folders it may not enter
const UPDATE_HINT = "run `apt-get update` as root, then try again";

export class DebianPackages {
  readonly #exec: Exec;

  constructor(exec: Exec) {
    this.#exec = exec;
  }

  /** Who depends on whom, starting with these packages. One question for all: each costs apt a second. */
  async dependencies(names: readonly string[]): Promise<PackageGraph> {
    const { stdout } = await this.#exec("apt-cache", ["depends", "--recurse", "--important", ...names]);
    return new PackageGraph(parseDepends(stdout));
  }

  /** Changes whenever `apt-get update` learned something. */
  listsChanged(): number {
    return statSync("/var/lib/apt/lists", { throwIfNoEntry: false })?.mtimeMs ?? 0;
  }

  /** Which files apt would fetch, without fetching them. */
  async locate(names: readonly string[]): Promise<PackageFile[]> {
    const { stdout } = await this.#apt(["download", "--print-uris", ...names], "/");
    const files = parseUris(stdout);
    if (files.length === names.length) return files;
    throw new AppError(
      "object.not_found",
      `apt knows ${files.length} of ${names.length} packages: ${UPDATE_HINT}`,
    );
  }

  async unpack(names: readonly string[], folder: string, root: string): Promise<void> {
    mkdirSync(folder, { recursive: true });
    mkdirSync(root, { recursive: true });
    const files = await this.locate(names);
    await this.#apt(["download", ...names], folder);
    for (const { file } of files) await this.#exec("dpkg-deb", ["-x", join(folder, file), root]);
  }

  async #apt(args: readonly string[], cwd: string): Promise<{ stdout: string }> {
    try {
      return await this.#exec("apt-get", [...NO_SANDBOX, ...args], { cwd, timeoutMs: 10 * 60_000 });
    } catch (cause) {
      throw new AppError(
        "internal.error",
        `cannot get Debian packages: ${(cause as Error).message}; ${UPDATE_HINT}`,
        { cause },
      );
    }
  }
}

export class PackageGraph {
  readonly #depends: ReadonlyMap<string, readonly string[]>;

  constructor(depends: ReadonlyMap<string, readonly string[]>) {
    this.#depends = depends;
  }

  /** The package that a meta package (such as linux-image-cloud-amd64) stands for today. */
  meaning(name: string, pattern: RegExp): string {
    const found = this.#depends.get(name)?.find((other) => pattern.test(other));
    if (found !== undefined) return found;
    throw new AppError(
      "object.not_found",
      `package ${name} names no package like ${pattern}: ${UPDATE_HINT}`,
    );
  }

  /** A package's libraries, and theirs. */
  libraries(name: string): string[] {
    const found = new Set<string>();
    const visit = (current: string): void => {
      for (const library of this.#depends.get(current) ?? []) {
        if (found.has(library) || !/^(?:lib|zlib)/.test(library)) continue;
        found.add(library);
        visit(library);
      }
    };
    visit(name);
    return [...found].toSorted();
  }
}

export function parseUris(text: string): PackageFile[] {
  return text.split("\n").flatMap((line) => {
    const [, url, file, checksum = ""] = /^'([^']+)' (\S+) \d+ ?(\S*)$/.exec(line) ?? [];
    return url === undefined || file === undefined ? [] : [{ url, file, checksum }];
  });
}

/** apt marks every alternative but the last with a bar: the first one counts. */
export function parseDepends(text: string): Map<string, string[]> {
  const depends = new Map<string, string[]>();
  let current: string[] = [];
  let alternative = false;
  for (const line of text.split("\n")) {
    const [, bar, name] = /^ ([ |])(?:Pre)?Depends: (\S+)$/.exec(line) ?? [];
    if (name !== undefined) {
      if (!alternative && !name.startsWith("<")) current.push(name);
      alternative = bar === "|";
    } else if (/^\S/.test(line)) {
      current = [];
      depends.set(line, current);
    }
  }
  return depends;
}
