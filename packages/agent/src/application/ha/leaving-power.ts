// Power of a machine with guests under HA: they are brought where the datacenter's policy wants them before it goes down.
import type { HostPower } from "@gpve/domain/node/host-ports.ts";
import { background } from "@gpve/kit/background.ts";
import type { Logger } from "@gpve/kit/logger.ts";

export interface LeavingPowerDeps {
  readonly power: HostPower & { require(command: "reboot" | "shutdown"): void };
  /** Resolves when the node may go; undefined = nothing here is under HA. */
  readonly leave: ((reason: "reboot" | "shutdown", timeoutMs: number) => Promise<void>) | undefined;
  readonly log: Logger;
}

/** A guest that does not stop by then ends with its lease. */
const LEAVE_MS = 15 * 60_000;

export function leavingPower({ power, leave, log }: LeavingPowerDeps): HostPower {
  return {
    async run(command) {
      power.require(command);
      if (leave === undefined) return power.run(command);
      log.info({ command }, "guests under HA leave before the machine goes down");
      const going = leave(command, LEAVE_MS).then(() => power.run(command));
      // Whoever asked is answered at once, as PVE does: guests may take minutes to move.
      background(log, `${command} of this machine`, going);
      return undefined;
    },
  };
}
