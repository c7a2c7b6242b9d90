// What agent and fence process say to each other, and to supervisors, as files in DIR/run/ha: either may be restarted at
// any time, and what they said stands.
//
//   wish.json   the agent: whether it wants the node's lease
//   lease.json  the fence process: who it is, and what it has
//   deadline    the fence process: until when guests under HA may run; supervisors have it mapped, so it is never replaced
import { closeSync, mkdirSync, openSync, readFileSync, renameSync, writeFileSync, writeSync } from "node:fs";
import { endianness } from "node:os";
import { join } from "node:path";
import { readJsonFile } from "@gpve/kit/atomic-file.ts";
import type { ProcessIdentity } from "@gpve/kit/process-identity.ts";
import type { LeaseReport } from "@gpve/domain/ha/fencing.ts";

export interface FenceReport extends LeaseReport {
  readonly process: ProcessIdentity;
  readonly version: string;
}

export class FenceFiles {
  readonly folder: string;

  /** `runFolder`: DIR/run. */
  constructor(runFolder: string) {
    this.folder = join(runFolder, "ha");
    mkdirSync(this.folder, { recursive: true, mode: 0o700 });
  }

  get deadlineFile(): string {
    return join(this.folder, "deadline");
  }

  readWish(): boolean {
    return (readJsonFile(join(this.folder, "wish.json")) as { hold?: boolean } | undefined)?.hold === true;
  }

  /** Writes only what is new. */
  wish(hold: boolean): void {
    if (this.readWish() !== hold) this.#write("wish.json", { hold });
  }

  readReport(): FenceReport | undefined {
    return readJsonFile(join(this.folder, "lease.json")) as FenceReport | undefined;
  }

  writeReport(report: FenceReport): void {
    this.#write("lease.json", report);
  }

  /** Whole or not at all, but not durable: no lease lasts as long as a machine takes to boot. */
  #write(name: string, value: unknown): void {
    const path = join(this.folder, name);
    writeFileSync(`${path}.new`, `${JSON.stringify(value)}\n`, { mode: 0o600 });
    renameSync(`${path}.new`, path);
  }

  /** In place: a new file would not be the one that supervisors look at. */
  writeDeadline(bootMs: number): void {
    const value = Buffer.alloc(8);
    if (endianness() === "LE") value.writeBigInt64LE(BigInt(Math.trunc(bootMs)));
    else value.writeBigInt64BE(BigInt(Math.trunc(bootMs)));
    const fd = openSync(this.deadlineFile, "a+", 0o600);
    closeSync(fd);
    const there = openSync(this.deadlineFile, "r+");
    try {
      writeSync(there, value, 0, 8, 0);
    } finally {
      closeSync(there);
    }
  }
}

/** For how long no server has confirmed that this node lives; undefined = no fence process has asked one. */
export function silentMs(runFolder: string): number | undefined {
  const { renewed = 0 } = new FenceFiles(runFolder).readReport() ?? {};
  return renewed === 0 ? undefined : bootMs() - renewed;
}

/** The clock of deadlines: milliseconds since boot, sleep included (CLOCK_BOOTTIME), to a hundredth of a second. */
export function bootMs(): number {
  return Number(readFileSync("/proc/uptime", "utf8").split(" ")[0]) * 1000;
}
