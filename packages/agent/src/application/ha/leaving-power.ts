// Power of a machine with guests: those that are not under HA are shut down while HA works on, then those under HA are brought
// where the datacenter's policy wants them. Whoever HA has stopped here waits for nothing but the machine.
import { messageOf } from "@gpve/contracts/errors.ts";
import type { HostPower } from "@gpve/domain/node/host-ports.ts";
import { background } from "@gpve/kit/background.ts";
import type { Logger } from "@gpve/kit/logger.ts";

export interface LeavingPowerDeps {
  readonly power: HostPower & { require(command: "reboot" | "shutdown"): void };
  /** undefined = nothing here is under HA. */
  readonly ha: LeavingHa | undefined;
  /** Resolves when guests that are not under HA have been shut down. */
  readonly stopAll: () => Promise<void>;
  readonly log: Logger;
}

interface LeavingHa {
  /** Resolves when the node may go. */
  readonly leave: (reason: "reboot" | "shutdown", timeoutMs: number) => Promise<void>;
  /** The node stays after all, and has to work on. */
  readonly resume: () => void;
}

/** A guest that does not stop by then ends with its lease. */
const LEAVE_MS = 15 * 60_000;

export function leavingPower({ power, ha, stopAll, log }: LeavingPowerDeps): HostPower {
  const goDown = async (command: "reboot" | "shutdown"): Promise<void> => {
    await stopAll().catch((err: unknown) =>
      log.error({ err: messageOf(err) }, "guests were not shut down: they end with the machine"),
    );
    await ha?.leave(command, LEAVE_MS);
    await power.run(command).catch((err: unknown) => {
      ha?.resume();
      throw err;
    });
  };
  return {
    async run(command) {
      power.require(command);
      log.info({ command }, "guests leave or are shut down before the machine goes down");
      // Whoever asked is answered at once, as PVE does: guests may take minutes.
      background(log, `${command} of this machine`, goDown(command));
      return undefined;
    },
  };
}
