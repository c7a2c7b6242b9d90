// What resets a machine whose fence process does not say that all is well: the kernel's watchdog, or for a node that is
// none but a part of a machine, a file that somebody outside looks at.
import { existsSync, writeFileSync } from "node:fs";
import { leaseTimes } from "@gpve/domain/ha/node-lease.ts";
import type { Logger } from "@gpve/kit/logger.ts";
import { spawnPiped, type PipedProcess } from "@gpve/kit/spawn.ts";
import type { Watchdog } from "@gpve/domain/ha/fencing.ts";

export const noWatchdog: Watchdog = { feed: () => undefined, disarm: () => undefined };

/** `armed N`, N rising, or `off`. In place, as a device is written. */
export function fileWatchdog(file: string): Watchdog {
  let beat = 0;
  return {
    feed: () => writeFileSync(file, `armed ${++beat} ${process.pid}\n`),
    disarm: () => writeFileSync(file, "off\n"),
  };
}

/**
 * /dev/watchdog by way of the supervisor's program, which can set its time. Should that or we end without saying
 * goodbye, it stays armed.
 */
export function deviceWatchdog(device: string, supervisor: string, log: Logger): Watchdog {
  let open: PipedProcess | undefined;
  const start = (): PipedProcess => {
    const seconds = String(Math.floor(leaseTimes.watchdogMs / 1000));
    const program = spawnPiped(supervisor, ["watchdog", device, seconds]);
    program.output.on("data", (line: Buffer) => log.info({ device }, `watchdog: ${line.toString().trim()}`));
    void program.ended.then(() => {
      if (open === program) open = undefined;
    });
    return program;
  };
  return {
    feed() {
      open ??= start();
      open.input.write(".");
    },
    disarm() {
      open?.input.end("V");
      open = undefined;
    },
  };
}

const DEFAULT_WATCHDOG = "/dev/watchdog";

/** The one that the configuration names; else the machine's, where it has one. */
export function chooseWatchdog(settings: {
  /** As the configuration has it. */
  readonly watchdog: string | undefined;
  /** Program that can set the time of a watchdog. */
  readonly supervisor: string | undefined;
  readonly log: Logger;
  readonly exists?: (path: string) => boolean;
}): Watchdog {
  const { watchdog, supervisor, log, exists = existsSync } = settings;
  const wanted = watchdog ?? (exists(DEFAULT_WATCHDOG) ? DEFAULT_WATCHDOG : "none");
  if (wanted.startsWith("file:")) return fileWatchdog(wanted.slice("file:".length));
  if (wanted === "none" || supervisor === undefined) {
    log.warn({}, "no watchdog: a machine that hangs with guests under HA is not reset; set ha.watchdog");
    return noWatchdog;
  }
  return deviceWatchdog(wanted, supervisor, log);
}
