// The text of `GET /nodes/{node}/report`: what one would ask a person for first when something is wrong.
import { messageOf } from "@gpve/contracts/errors.ts";
import type { NodeFacts } from "@gpve/domain/node/runtime.ts";
import type { Exec } from "@gpve/kit/exec.ts";
import type { HostReport } from "@gpve/domain/node/host-ports.ts";

const sections: readonly {
  readonly title: string;
  readonly commands: readonly (readonly [string, ...string[]])[];
}[] = [
  {
    title: "general",
    commands: [
      ["uname", "-a"],
      ["uptime"],
      ["date", "-R"],
      ["cat", "/etc/hosts"],
      ["cat", "/etc/resolv.conf"],
    ],
  },
  { title: "cpu and memory", commands: [["lscpu"], ["free", "-b"]] },
  {
    title: "disks",
    commands: [
      ["lsblk", "--ascii"],
      ["df", "-h", "-T"],
      ["findmnt", "--ascii"],
    ],
  },
  {
    title: "network",
    commands: [
      ["ip", "-details", "-statistics", "address"],
      ["ip", "-4", "route"],
      ["ip", "-6", "route"],
    ],
  },
  { title: "firewall", commands: [["nft", "list", "ruleset"]] },
  { title: "volumes", commands: [["vgs"], ["lvs"], ["zpool", "status"]] },
  {
    title: "virtual machines",
    commands: [
      ["qemu-system-x86_64", "--version"],
      ["pgrep", "-a", "-c", "qemu-system"],
    ],
  },
];

export interface SystemReportDeps {
  readonly exec: Exec;
  readonly node: string;
  readonly version: string;
  readonly facts: () => NodeFacts;
}

export class SystemReport implements HostReport {
  readonly #deps: SystemReportDeps;

  constructor(deps: SystemReportDeps) {
    this.#deps = deps;
  }

  async text(signal: AbortSignal): Promise<string> {
    const parts = [`==== node ${this.#deps.node}, gpve ${this.#deps.version} ====\n`, this.#capabilities()];
    for (const { title, commands } of sections) {
      parts.push(`\n==== ${title} ====\n`);
      for (const [file, ...args] of commands) {
        parts.push(`\n# ${[file, ...args].join(" ")}\n`, await this.#output(file, args, signal));
      }
    }
    return parts.join("");
  }

  #capabilities(): string {
    const lines = this.#deps.facts().capabilities.map((capability) => {
      const fix = capability.fix === undefined ? "" : `\n      fix: ${capability.fix}`;
      return `  ${capability.available ? "yes" : "NO "} ${capability.name}: ${capability.detail}${fix}\n`;
    });
    return `\n==== capabilities ====\n${lines.join("")}`;
  }

  /** A section that cannot be made says so; the rest is still worth reading. */
  async #output(file: string, args: readonly string[], signal: AbortSignal): Promise<string> {
    try {
      const { stdout } = await this.#deps.exec(file, args, { signal, timeoutMs: 10_000 });
      return stdout.endsWith("\n") || stdout === "" ? stdout : `${stdout}\n`;
    } catch (err) {
      signal.throwIfAborted();
      return `(${messageOf(err)})\n`;
    }
  }
}
