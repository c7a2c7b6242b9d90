import { existsSync, readlinkSync } from "node:fs";
import { AppError } from "@gpve/contracts/errors.ts";
import type { Exec } from "@gpve/kit/exec.ts";
import type { HostPower } from "@gpve/domain/node/host-ports.ts";

export interface PowerDeps {
  readonly exec: Exec;
  /** Tells whether systemd runs this machine. */
  readonly hasSystemd?: () => boolean;
  /** Tells whether this agent has the machine to itself: a test node is only a network namespace on it. */
  readonly ownsMachine?: () => boolean;
}

/** Turns the machine off or starts it again, where that is the agent's to decide. */
export class SystemdPower implements HostPower {
  readonly #deps: PowerDeps;

  constructor(deps: PowerDeps) {
    this.#deps = deps;
  }

  /** Throws, with the reason, where it is not. */
  require(command: "reboot" | "shutdown"): void {
    const { hasSystemd = runsSystemd, ownsMachine = sharesNetworkWithInit } = this.#deps;
    if (!ownsMachine()) {
      throw refused(command, "it is a network namespace on a machine that others use");
    }
    if (!hasSystemd()) throw refused(command, "systemd does not run this machine");
  }

  async run(command: "reboot" | "shutdown"): Promise<void> {
    this.require(command);
    await this.#deps.exec("systemctl", [command === "reboot" ? "reboot" : "poweroff"], { timeoutMs: 20_000 });
  }
}

function refused(command: string, why: string): AppError {
  return new AppError("feature.unsupported", `this node cannot ${command}: ${why}`, { pveStatus: 500 });
}

function runsSystemd(): boolean {
  return existsSync("/run/systemd/system");
}

function sharesNetworkWithInit(): boolean {
  try {
    return readlinkSync("/proc/self/ns/net") === readlinkSync("/proc/1/ns/net");
  } catch {
    // Not allowed to look at init: not root, so systemctl will say what it thinks of it.
    return true;
  }
}
