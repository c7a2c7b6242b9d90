import { parameterError } from "@gpve/domain/request/failures.ts";
import { renameSync, rmSync, statSync, symlinkSync, readlinkSync } from "node:fs";
import { join } from "node:path";
import { AppError, messageOf } from "@gpve/contracts/errors.ts";
import { readTextFile, writeFileAtomic } from "@gpve/kit/atomic-file.ts";
import type { HostTime } from "@gpve/domain/node/host-ports.ts";

export interface TimezonePaths {
  readonly timezone: string;
  readonly localtime: string;
  readonly zoneinfo: string;
}

const SYSTEM: TimezonePaths = {
  timezone: "/etc/timezone",
  localtime: "/etc/localtime",
  zoneinfo: "/usr/share/zoneinfo",
};

export class HostTimezone implements HostTime {
  readonly #paths: TimezonePaths;

  constructor(paths: TimezonePaths = SYSTEM) {
    this.#paths = paths;
  }

  async timezone(): Promise<string> {
    const written = readTextFile(this.#paths.timezone)?.trim();
    return written === undefined || written === "" ? this.#linked() : written;
  }

  async setTimezone(timezone: string): Promise<void> {
    const file = join(this.#paths.zoneinfo, timezone);
    if (!/^[A-Za-z0-9_+-]+(\/[A-Za-z0-9_+-]+)*$/.test(timezone) || !isFile(file)) {
      const errors = { timezone: "No such timezone" };
      throw parameterError(errors);
    }
    try {
      writeFileAtomic(this.#paths.timezone, `${timezone}\n`, 0o644);
      const fresh = `${this.#paths.localtime}.new`;
      rmSync(fresh, { force: true });
      symlinkSync(file, fresh);
      renameSync(fresh, this.#paths.localtime);
    } catch (cause) {
      throw new AppError("internal.error", `cannot set the time zone: ${messageOf(cause)}`, { cause });
    }
  }

  #linked(): string {
    try {
      const target = readlinkSync(this.#paths.localtime);
      return /zoneinfo\/(.+)$/.exec(target)?.[1] ?? "UTC";
    } catch {
      return "UTC";
    }
  }
}

function isFile(path: string): boolean {
  return statSync(path, { throwIfNoEntry: false })?.isFile() ?? false;
}
