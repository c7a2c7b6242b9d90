// The real supervisor and the real deadline, with a process that would sleep for ever.
import { existsSync, mkdirSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { kill } from "node:process";
import { afterEach, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { systemClock } from "@gpve/kit/clock.ts";
import { silentLogger } from "@gpve/kit/logger.ts";
import { identify } from "@gpve/kit/process-identity.ts";
import { GuestFolder } from "../guest-process/guest-folder.ts";
import { SupervisedGuests } from "../guest-process/supervised-guests.ts";
import { supervisorBinary } from "../supervisor/build.ts";
import { bootMs, FenceFiles } from "./fence-files.ts";
import { MarkedGuests } from "./guarded-guests.ts";

const root = join(import.meta.dirname, "../../../../..");
const hasCompiler = existsSync("/usr/bin/cc");
const needs = hasCompiler ? "" : " (SKIPPED, no C compiler: apt-get install gcc libc6-dev)";
const FAR_MS = 60_000;

describe.skipIf(!hasCompiler)(`guests with a deadline${needs}`, () => {
  let folder: string;
  let supervisor: string;
  let files: FenceFiles;
  let guests: SupervisedGuests;
  let marked: MarkedGuests;
  let guardOf: (id: string) => string | undefined;

  beforeAll(async () => {
    const sourceFolder = join(root, "packages/supervisor");
    supervisor = await supervisorBinary({ sourceFolder, cacheFolder: join(root, ".cache") });
  });
  beforeEach(() => {
    folder = mkdtempSync(join(tmpdir(), "gpve-guarded-"));
    mkdirSync(join(folder, "run"));
    files = new FenceFiles(join(folder, "run"));
    files.writeDeadline(bootMs() + FAR_MS);
    guardOf = () => files.deadlineFile;
    guests = new SupervisedGuests({
      dataFolder: folder,
      instanceId: "abcdef",
      supervisor,
      log: silentLogger,
      isRoot: false,
      guardOf: (id) => guardOf(id),
    });
    marked = new MarkedGuests(join(folder, "run", "guests"), files, systemClock);
  });
  afterEach(async () => {
    for (const guest of guests.list()) await guest.kill();
    guests.close();
    rmSync(folder, { recursive: true, force: true });
  });

  const start = async (id: string) => {
    await guests.start({ id, label: `guest ${id}`, program: "/usr/bin/sleep", args: ["600"], files: [] });
    const guest = guests.get(id);
    if (guest === undefined) throw new Error("it does not run");
    return guest;
  };
  const isAlive = (pid: number): boolean => identify(pid) !== undefined;

  it("end by themselves when it passes, and not while it is moved on", async () => {
    const guest = await start("100");
    expect(guest.isGuarded).toBe(true);
    files.writeDeadline(bootMs() + 1_500);
    await systemClock.sleep(1_000);
    files.writeDeadline(bootMs() + 2_000);
    await systemClock.sleep(1_000);
    expect(isAlive(guest.pid)).toBe(true);
    const exit = await guest.exited;
    expect(exit.signal).toBe(9);
  });

  it("end at once when it is taken back", async () => {
    const guest = await start("100");
    files.writeDeadline(0);
    expect((await guest.exited).signal).toBe(9);
  });

  it("are not started when it has passed, or is none of ours", async () => {
    files.writeDeadline(bootMs() - 1);
    await expect(start("100")).rejects.toThrow("no lease on guests under HA");
    guardOf = () => join(folder, "nothing");
    await expect(start("101")).rejects.toThrow("cannot open the deadline");
  });

  it("get one while they run, and lose it", async () => {
    guardOf = () => undefined;
    const guest = await start("100");
    expect(guest.isGuarded).toBe(false);
    await guest.guard(files.deadlineFile);
    expect(guest.isGuarded).toBe(true);
    await guest.unguard();
    files.writeDeadline(0);
    await systemClock.sleep(1_500);
    expect(isAlive(guest.pid)).toBe(true);
    await guest.guard(files.deadlineFile);
    expect((await guest.exited).signal).toBe(9);
  });

  it("are found and ended by their marks, without supervisor and agent; others are not touched", async () => {
    const kept = await (async () => {
      guardOf = () => undefined;
      return start("7");
    })();
    guardOf = () => files.deadlineFile;
    const guest = await start("100");
    const { supervisor: holder } = new GuestFolder(join(folder, "run", "guests"), "100").readState() ?? {};
    kill(holder ?? 0, "SIGKILL");
    expect(await marked.end()).toEqual({ ended: ["100"], left: [] });
    expect(isAlive(guest.pid)).toBe(false);
    expect(isAlive(kept.pid)).toBe(true);
    expect(await marked.end()).toEqual({ ended: [], left: [] });
  });
});
