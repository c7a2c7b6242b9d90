// A pid alone names nobody: pids are reused. Boot id + pid + start time name one process.
import { readFileSync } from "node:fs";

export interface ProcessIdentity {
  readonly bootId: string;
  readonly pid: number;
  /** Field 22 of /proc/PID/stat, clock ticks since boot. */
  readonly startTime: string;
}

export function bootId(): string {
  return readFileSync("/proc/sys/kernel/random/boot_id", "utf8").trim();
}

/** undefined = no such process. */
export function identify(pid: number): ProcessIdentity | undefined {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, "utf8");
    const fields = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
    if (fields[0] === "Z") return undefined;
    return { bootId: bootId(), pid, startTime: fields[19] ?? "" };
  } catch (err) {
    if ((err as NodeJS.ErrnoException).code === "ENOENT" || (err as NodeJS.ErrnoException).code === "ESRCH")
      return undefined;
    throw err;
  }
}

export function identifySelf(): ProcessIdentity {
  const self = identify(process.pid);
  if (self === undefined) throw new Error("this process cannot be found in /proc");
  return self;
}

export function isAlive(identity: ProcessIdentity): boolean {
  const now = identify(identity.pid);
  return now !== undefined && now.bootId === identity.bootId && now.startTime === identity.startTime;
}
