// Real guests for tests: a data directory of their own, tiny boot sectors, and nothing left afterwards.
import {
  chmodSync,
  existsSync,
  mkdtempSync,
  readFileSync,
  readdirSync,
  rmSync,
  rmdirSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { MonitoredQemus } from "@gpve/agent/testing/monitored-qemus.ts";
import { supervisorBinary } from "@gpve/agent/infrastructure/supervisor/build.ts";
import { type BootProgram, bootSector } from "@gpve/agent/testing/boot-sector.ts";
import type { QemuStart } from "@gpve/domain/vm/qemu-processes.ts";
import { type DataDir, openDataDir } from "@gpve/kit/data-dir.ts";
import { silentLogger } from "@gpve/kit/logger.ts";

export const QEMU = "/usr/bin/qemu-system-x86_64";
const repo = join(import.meta.dirname, "..", "..", "..");

/** Why real guests cannot run here, or undefined. */
export function missingForGuests(): string | undefined {
  if (process.getuid?.() !== 0) return "not root: run the integration tests as root";
  if (!existsSync(QEMU)) return `no ${QEMU}: apt-get install qemu-system-x86`;
  if (!existsSync("/usr/bin/cc")) return "no C compiler: apt-get install gcc libc6-dev";
  return undefined;
}

export interface GuestWorld {
  readonly data: DataDir;
  readonly supervisor: string;
  guests(): MonitoredQemus;
  disk(name: string, program: BootProgram): string;
  /** Kills every process of this data directory and removes all it made. */
  clean(): Promise<void>;
}

export async function guestWorld(path = mkdtempSync(join(tmpdir(), "gpve-guests-"))): Promise<GuestWorld> {
  const data = openDataDir(path);
  const supervisor = await supervisorBinary({
    sourceFolder: join(repo, "packages", "supervisor"),
    cacheFolder: join(repo, ".cache"),
  });
  const made: MonitoredQemus[] = [];
  return {
    data,
    supervisor,
    guests() {
      const guests = new MonitoredQemus({
        dataFolder: data.path,
        instanceId: data.instanceId,
        supervisor,
        log: silentLogger,
      });
      made.push(guests);
      return guests;
    },
    disk(name, program) {
      const file = join(data.path, name);
      writeFileSync(file, bootSector(program));
      chmodSync(file, 0o600);
      return file;
    },
    async clean() {
      for (const guests of made) guests.close();
      for (const pid of processesOf(data.path)) process.kill(pid, "SIGKILL");
      while (processesOf(data.path).length > 0) await new Promise((resolve) => setTimeout(resolve, 20));
      await removeCgroups(`gpve-${data.instanceId}`);
      rmSync(data.path, { recursive: true, force: true });
    },
  };
}

/** A guest that boots the given disk. */
export function bootable(id: string, disk: string, more: Partial<QemuStart> = {}): QemuStart {
  const uuid = `00000000-0000-4000-8000-${id.replace(/\D/g, "").padStart(12, "0")}`;
  return {
    id,
    label: `VM ${id}`,
    program: QEMU,
    uuid,
    files: [{ path: disk, access: "rw" }],
    ...more,
    // oxfmt-ignore
    args: [
      "-nodefaults", "-display", "none", "-machine", "pc", "-accel", "tcg,tb-size=8", "-m", "16",
      "-no-shutdown", "-uuid", uuid,
      "-sandbox", "on,obsolete=deny,elevateprivileges=deny,spawn=deny,resourcecontrol=deny",
      "-blockdev", `driver=raw,node-name=disk0,file.driver=file,file.filename=${disk}`,
      "-device", "ide-hd,drive=disk0,bootindex=1",
      ...(more.args ?? []),
    ],
  };
}

/** Pids whose command line or log names the folder. */
export function processesOf(folder: string): number[] {
  return readdirSync("/proc").flatMap((entry) => {
    if (!/^\d+$/.test(entry) || Number(entry) === process.pid) return [];
    try {
      return readFileSync(`/proc/${entry}/cmdline`, "utf8").includes(folder) ? [Number(entry)] : [];
    } catch {
      return []; // ended while we looked
    }
  });
}

async function removeCgroups(name: string): Promise<void> {
  for (const hierarchy of ["", ...readdirSync("/sys/fs/cgroup")]) {
    const folder = join("/sys/fs/cgroup", hierarchy, name);
    if (!existsSync(folder)) continue;
    const children = readdirSync(folder, { withFileTypes: true }).filter((entry) => entry.isDirectory());
    for (const child of children) await removeWhenEmpty(join(folder, child.name));
    await removeWhenEmpty(folder);
  }
}

/** The last process may be gone from the process list a moment before it leaves its group. */
async function removeWhenEmpty(folder: string): Promise<void> {
  for (let attempt = 0; ; attempt++) {
    try {
      rmdirSync(folder);
      return;
    } catch (err) {
      if (attempt === 200) throw err;
      await new Promise((resolve) => setTimeout(resolve, 20));
    }
  }
}
