// Packages of a Debian host: what gpve leans on, and what could be upgraded.
import { given } from "@gpve/contracts/given.ts";
import { AppError, isAppError } from "@gpve/contracts/errors.ts";
import { PRODUCT_VERSION, PVE_VERSION, REPO_ID } from "@gpve/contracts/version.ts";
import { ignore } from "@gpve/kit/background.ts";
import type { Exec } from "@gpve/kit/exec.ts";
import { readAptSources, type AptSources } from "./apt-sources.ts";
import type { HostFiles } from "../facts/host-files.ts";

type Row = Readonly<Record<string, unknown>>;

export interface DebianHostDeps {
  readonly exec: Exec;
  readonly files: HostFiles;
  /** `uname -r` and `uname -m` of this host. */
  readonly kernel: () => { readonly release: string; readonly machine: string };
}

/** What guests, storage and networks here are made with, if it is installed. */
const LEANED_ON = [
  "dnsmasq-base",
  "genisoimage",
  "iproute2",
  "lvm2",
  "nftables",
  "ovmf",
  "qemu-system-x86",
  "qemu-utils",
  "skopeo",
  "smartmontools",
  "swtpm",
  "swtpm-tools",
  "systemd",
  "virtiofsd",
  "zfsutils-linux",
  "zstd",
];
const FORMAT = [
  "${Package}",
  "${Version}",
  "${Architecture}",
  "${Section}",
  "${Priority}",
  "${db:Status-Status}",
  "${Description}",
].join("\\t");
/** A description has lines of its own. */
const RECORD_END = "\u001e";
const APT_MS = 120_000;
/** Whenever one of these changes, another list of upgrades may follow. */
const STATES = ["/var/lib/dpkg/status", "/var/cache/apt/pkgcache.bin", "/var/lib/apt/lists"];
const ARCHITECTURES: Readonly<Record<string, string>> = { x86_64: "amd64", aarch64: "arm64" };

export class DebianHost {
  readonly #deps: DebianHostDeps;
  #upgrades: { readonly state: string; readonly rows: Promise<readonly Row[]> } | undefined;

  constructor(deps: DebianHostDeps) {
    this.#deps = deps;
  }

  async versions(): Promise<readonly Row[]> {
    const { release, machine } = this.#deps.kernel();
    const product = {
      Package: "gpve",
      Title: "Proxmox-VE-compatible cloud",
      Description: "Proxmox-VE-compatible cloud",
      Origin: "gpve",
      Section: "admin",
      Priority: "optional",
      Arch: ARCHITECTURES[machine] ?? "all",
      Version: PRODUCT_VERSION,
      OldVersion: PRODUCT_VERSION,
      CurrentState: "Installed",
      ManagerVersion: `pve-manager/${PVE_VERSION}/${REPO_ID}`,
      RunningKernel: release,
    };
    return [product, ...(await this.#installed())];
  }

  sources(): AptSources {
    return readAptSources();
  }

  /** Packages that could be upgraded, by what apt knows now; nothing is fetched. */
  async upgrades(): Promise<readonly Row[]> {
    const state = (await Promise.all(STATES.map((path) => this.#deps.files.mtime(path)))).join(" ");
    if (this.#upgrades?.state !== state) {
      const rows = this.#findUpgrades();
      this.#upgrades = { state, rows };
      // A failure is not remembered: the next one who asks tries again.
      rows.catch(() => (this.#upgrades = undefined));
    }
    return this.#upgrades.rows;
  }

  async #installed(): Promise<readonly Row[]> {
    const { stdout } = await this.#run(
      "dpkg-query",
      ["-W", `-f=${FORMAT}${RECORD_END}`, ...LEANED_ON],
      [0, 1],
    );
    return stdout.split(RECORD_END).flatMap((record) => {
      const [name = "", version, arch, section, priority, status, description = ""] = record.split("\t");
      if (status !== "installed") return [];
      return [
        {
          ...about(name, arch, section, priority, description),
          Version: version,
          OldVersion: version,
          CurrentState: "Installed",
        },
      ];
    });
  }

  async #findUpgrades(): Promise<readonly Row[]> {
    const simulated = ["-s", "-qq", "-o", "Debug::NoLocking=true", "dist-upgrade"];
    const { stdout } = await this.#run("apt-get", simulated);
    const found = [...stdout.matchAll(/^Inst (\S+) (?:\[(\S+)\] )?\((\S+) ([^[)]*)\[(\w+)\]/gm)];
    if (found.length === 0) return [];
    const descriptions = await this.#describe(
      found.map(([, name = "", , version = ""]) => `${name}=${version}`),
    );
    return found.map(([, name = "", old, version, origin = "", arch]) => {
      const known = descriptions.get(name.replace(/:\w+$/, "")) ?? {};
      return {
        ...about(name, arch, known["Section"], known["Priority"], known["Description"] ?? ""),
        Origin: /^([^:,]+)/.exec(origin.trim())?.[1] ?? "unknown",
        Version: version,
        ...given({ OldVersion: old }),
      };
    });
  }

  async #describe(
    packages: readonly string[],
  ): Promise<ReadonlyMap<string, Readonly<Record<string, string>>>> {
    const { stdout } = await this.#run("apt-cache", ["show", "--", ...packages], [0, 100]);
    return new Map(
      stdout.split(/\n{2,}/).flatMap((paragraph) => {
        const fields = [...paragraph.matchAll(/^([A-Z][\w-]*): (.*(?:\n .*)*)/gm)];
        const record = Object.fromEntries(
          fields.map(([, key = "", value = ""]) => [
            key.replace(/^Description-(?!md5)\w+$/, "Description"),
            value,
          ]),
        );
        return record["Package"] === undefined ? [] : [[record["Package"], record] as const];
      }),
    );
  }

  async #run(file: string, args: readonly string[], okCodes = [0]): Promise<{ readonly stdout: string }> {
    try {
      return await this.#deps.exec(file, args, { timeoutMs: APT_MS, okCodes });
    } catch (err) {
      if (!isAppError(err, "feature.unsupported")) throw err;
      ignore(err, "said instead");
      throw new AppError("feature.unsupported", `no Debian packages on this host: ${file} is not installed`);
    }
  }
}

/** What PVE tells of any package. A description is a title, then text in which a lone dot is an empty line. */
function about(
  name: string,
  arch: string | undefined,
  section: string | undefined,
  priority: string | undefined,
  description: string,
): Row {
  const [title = "", ...text] = description.split("\n");
  return {
    Package: name,
    Title: title.trim(),
    Description: text.map((line) => (line === " ." ? "\n" : line.trim())).join(" "),
    Origin: "unknown",
    Section: section ?? "unknown",
    Priority: priority ?? "optional",
    Arch: arch,
  };
}
