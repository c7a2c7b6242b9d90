// Without root and without QEMU: the real supervisor, a process that speaks QMP, no confinement.
import { existsSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from "vitest";
import type { QemuStart } from "@gpve/domain/vm/qemu-processes.ts";
import { systemClock, type Clock } from "@gpve/kit/clock.ts";
import { silentLogger } from "@gpve/kit/logger.ts";
import { supervisorBinary } from "../supervisor/build.ts";
import { GuestFolder } from "./guest-folder.ts";
import { guestProcessesConformance } from "../../testing/guest-processes-conformance.ts";
import { MonitoredQemus } from "../../testing/monitored-qemus.ts";

const root = join(import.meta.dirname, "../../../../..");
const hasCompiler = existsSync("/usr/bin/cc");
const needs = hasCompiler ? "" : " (SKIPPED, no C compiler: apt-get install gcc libc6-dev)";

describe.skipIf(!hasCompiler)(`guests under a supervisor${needs}`, () => {
  let folder: string;
  let supervisor: string;
  const made: MonitoredQemus[] = [];

  function open(more: { readonly clock?: Clock } = {}): MonitoredQemus {
    const guests = new MonitoredQemus({
      ...more,
      dataFolder: folder,
      instanceId: "abcdef",
      supervisor,
      log: silentLogger,
      isRoot: false,
    });
    made.push(guests);
    return guests;
  }

  function fakeVm(id: string, more: readonly string[] = []): QemuStart {
    const uuid = `00000000-0000-4000-8000-000000000${id}`;
    return {
      id,
      label: `VM ${id}`,
      program: process.execPath,
      args: [
        "--disable-warning=ExperimentalWarning",
        join(root, "packages/agent/src/testing/fake-qemu.ts"),
        "-uuid",
        uuid,
        ...more,
      ],
      uuid,
      files: [],
      note: { id },
    };
  }

  beforeAll(async () => {
    supervisor = await supervisorBinary({
      sourceFolder: join(root, "packages/supervisor"),
      cacheFolder: join(root, ".cache"),
    });
  });

  beforeEach(() => {
    folder = mkdtempSync(join(tmpdir(), "gpve-supervised-"));
    mkdirSync(join(folder, "run"));
  });

  afterEach(async () => {
    const last = open();
    await last.adopt();
    for (const guest of made.splice(0).flatMap((guests) => guests.list())) await guest.kill();
    rmSync(folder, { recursive: true, force: true });
  });

  afterAll(() => {
    for (const guests of made) guests.close();
  });

  guestProcessesConformance(async () => ({
    processes: open(),
    reopen: () => open(),
    program: (id) => ({ id, label: `guest ${id}`, program: "/usr/bin/sleep", args: ["600"], files: [] }),
    qemu: (id) => fakeVm(id),
    failing: (id, words) => fakeVm(id, ["-fail", words]),
    endAlone: async ({ pid }) => process.kill(pid, "SIGKILL"),
    switchOff: (guest) => guest.qmp.raw("x-power-off"),
    clean: async () => undefined, // the afterEach above ends whatever is left
  }));

  it("says that nothing is confined without root", () => {
    expect(open().confinement).toMatchObject({ level: "none" });
  });

  it("starts, serves monitors and stops", async () => {
    const guests = open();
    const guest = await guests.startQemu({
      ...fakeVm("100"),
      ioFiles: [{ name: "copy", copyOf: supervisor }],
    });
    expect(existsSync(join(guest.ioFolder, "copy"))).toBe(true);
    expect(guests.get("100")).toBe(guest);
    expect(await guest.qmp.execute("query-status")).toEqual({ status: "running", running: true });
    expect(guest.usage().cpuNs).toBeGreaterThan(0);
    expect(guest.usage().memoryAnonBytes).toBeGreaterThan(0);
    expect(() => guest.setLimits({ cpuUnits: 1 })).toThrow("without root");
    await guest.allowFile({ path: "/etc/hostname", access: "ro" });
    await guest.forbidFile("/etc/hostname");
    expect(guests.placeOf("100").socketPath("qmp")).toBe(guest.socketPath("qmp"));
    expect(guests.placeOf("100").ioFolder).toBe(guest.ioFolder);
    expect(guest.socketPath("qmp")).toContain("/run/guests/100/qmp.sock");
    expect(guest.ioFolder).toContain("/run/guests/100/io");
    await expect(guests.startQemu(fakeVm("100"))).rejects.toThrow("VM 100 already running");
    await expect(guests.forget("100")).rejects.toThrow("still running");
    expect(await guest.stop()).toMatchObject({ cause: "stopped", exitCode: 0 });
    await guests.forget("100");
    expect(existsSync(join(folder, "run/guests/100"))).toBe(false);
  });

  it("reports a guest that switched itself off", async () => {
    const guests = open();
    const ends: string[] = [];
    const stop = guests.onExit(({ id, exit }) => ends.push(`${id} ${exit.cause}`));
    const guest = await guests.startQemu(fakeVm("101"));
    await guest.qmp.raw("x-power-off");
    expect(await guest.exited).toMatchObject({ cause: "shutdown", reason: "guest-shutdown" });
    await expect.poll(() => ends).toEqual(["101 shutdown"]);
    stop();
  });

  it("ends after its guest has switched itself off, also where that cannot be written down", async () => {
    const guest = await open().startQemu(fakeVm("119"));
    mkdirSync(join(folder, "run/guests/119", `end.json.tmp-${process.pid}`));
    await guest.qmp.raw("x-power-off");
    expect(await guest.exited).toMatchObject({ exitCode: 0 });
  });

  it("is killed when it does not end after its guest has switched itself off", async () => {
    let haste = 1;
    const clock = {
      ...systemClock,
      after: (ms: number, run: () => void) => systemClock.after(ms / haste, run),
    };
    const guest = await open({ clock }).startQemu(fakeVm("116", ["-hang"]));
    haste = 20;
    await guest.qmp.raw("x-power-off");
    expect(await guest.exited).toMatchObject({ cause: "shutdown", reason: "guest-shutdown" });
  });

  it("is adopted while it hangs, answers when it wakes up, and can be killed when it does not", async () => {
    let haste = 1;
    const clock = {
      ...systemClock,
      after: (ms: number, run: () => void) => systemClock.after(ms / haste, run),
    };
    for (const [id, wakes] of [
      ["117", true],
      ["118", false],
    ] as const) {
      const first = open();
      const { pid } = await first.startQemu(fakeVm(id));
      first.close();
      process.kill(pid, "SIGSTOP");
      haste = 50;
      const again = open({ clock });
      const found = await again.adopt();
      expect(found.unreachable).toEqual([]);
      const guest = again.qemu(id);
      haste = 1;
      if (wakes) {
        process.kill(pid, "SIGCONT");
        await expect
          .poll(() => guest?.qmp.execute("query-status"), { timeout: 20_000 })
          .toMatchObject({ running: true });
      }
      expect(await guest?.kill()).toMatchObject({ signal: 9 });
    }
  });

  it("tells a watchdog that switched its guest off", async () => {
    const guest = await open().startQemu(fakeVm("115"));
    await guest.qmp.raw("x-bark");
    // QEMU ends by itself then, with the code of a proper end.
    await expect.poll(() => existsSync(join(folder, "run/guests/115/end.json"))).toBe(true);
    await guest.qmp.execute("quit");
    expect(await guest.exited).toMatchObject({ cause: "shutdown", reason: "watchdog" });
  });

  it("is kept after its guest has switched itself off, as long as somebody needs it", async () => {
    const guest = await open().startQemu(fakeVm("114"));
    const release = guest.holdOpen();
    const second = guest.holdOpen();
    await guest.qmp.raw("x-power-off");
    await expect.poll(async () => (await guest.qmp.execute("query-status")).status).toBe("shutdown");
    release();
    release();
    expect(guest.hasExited).toBe(false);
    second();
    expect(await guest.exited).toMatchObject({ cause: "shutdown" });
    expect(guest.usage()).toEqual({ cpuNs: 0, memoryBytes: 0, memoryAnonBytes: 0 });
  });

  it("is remembered by its last words when its folder is gone", async () => {
    const guests = open();
    const guest = await guests.start({
      ...fakeVm("118"),
      program: "/bin/sh",
      args: ["-c", "echo farewell"],
    });
    await guest.exited;
    await expect.poll(() => guests.get("118")).toBeUndefined();
    await guests.forget("118");
    expect(guests.lastWords("118")).toBe("farewell");
  });

  it("is forgotten once, and not while it is started again", async () => {
    const guests = open();
    const guest = await guests.startQemu(fakeVm("116"));
    await guest.stop();
    const [forgotten, again] = await Promise.allSettled([
      guests.forget("116"),
      guests.startQemu(fakeVm("116")),
    ]);
    expect([forgotten.status, again.status]).toEqual(["fulfilled", "fulfilled"]);
    const starting = guests.startQemu(fakeVm("117"));
    await expect(guests.forget("117")).rejects.toThrow("is being started");
    await (await starting).stop();
    await guests.get("116")?.stop();
  });

  it("gives the program's own words when it does not start", async () => {
    const guests = open();
    await expect(guests.startQemu(fakeVm("102", ["-fail", "bad option"]))).rejects.toMatchObject({
      code: "guest.start_failed",
      message: "start of VM 102 failed: bad option",
    });
    await expect(guests.startQemu({ ...fakeVm("102"), program: "/no/such" })).rejects.toMatchObject({
      code: "guest.start_failed",
    });
    await expect(guests.startQemu({ ...fakeVm("102"), uuid: "other" })).rejects.toThrow("another guest");
    expect(existsSync(join(folder, "run/guests/102"))).toBe(false);
  });

  it("finds its guests again, with those that ended meanwhile", async () => {
    const before = open();
    const one = await before.startQemu(fakeVm("103"));
    const two = await before.startQemu(fakeVm("104"));
    const three = await before.startQemu(fakeVm("105"));
    before.close();
    process.kill(two.pid, "SIGKILL");
    await expect.poll(() => existsSync(join(folder, "run/guests/104/exit"))).toBe(true);
    const after = open();
    const found = await after.adopt();
    expect(found.running.map(({ pid }) => pid).toSorted((a, b) => a - b)).toEqual(
      [one.pid, three.pid].toSorted((a, b) => a - b),
    );
    expect(found.ended).toMatchObject([
      { id: "104", note: { id: "104" }, exit: { cause: "killed", signal: 9 } },
    ]);
    expect((await after.adopt()).running).toEqual([]);
  });

  it("takes remains of an unfinished start away, and knows what a reboot ended", async () => {
    const guests = open();
    const half = new GuestFolder(join(folder, "run/guests"), "106");
    half.create();
    const unstarted = new GuestFolder(join(folder, "run/guests"), "107");
    unstarted.create();
    const card = { label: "x", bootId: "", startedAt: 0, confined: false };
    unstarted.writeCard({
      ...card,
      id: "107",
      bootId: (await import("@gpve/kit/process-identity.ts")).bootId(),
    });
    const old = new GuestFolder(join(folder, "run/guests"), "108");
    old.create();
    old.writeCard({ ...card, id: "108" });
    const found = await guests.adopt();
    expect(found.ended).toMatchObject([{ id: "108", exit: { cause: "hostReboot" } }]);
    expect(existsSync(half.path)).toBe(false);
    expect(existsSync(unstarted.path)).toBe(false);
  });

  it("does not take a foreign process at the monitor for its guest", async () => {
    const before = open();
    const guest = await before.startQemu(fakeVm("109"));
    before.close();
    const place = new GuestFolder(join(folder, "run/guests"), "109");
    const card = place.readCard();
    if (card === undefined) throw new Error("no card");
    writeFileSync(place.file("guest.json"), JSON.stringify({ ...card, uuid: "something-else" }));
    const found = await open().adopt();
    expect(found.unreachable).toMatchObject([{ id: "109" }]);
    process.kill(guest.pid, "SIGKILL");
  });

  it("hands a tap over through the supervisor, with QEMU's refusal as error", async () => {
    const guest = await open().startQemu(fakeVm("110"));
    await expect(
      guest.plugTap("net0", { name: "x".repeat(20), bridge: "", vhost: false }),
    ).rejects.toBeInstanceOf(Error);
  });

  it("holds programs without monitors, killed by whomever", async () => {
    const guests = open();
    const helper = await guests.start({
      id: "111-tpm",
      label: "TPM of VM 111",
      program: "/usr/bin/sleep",
      args: ["100"],
      files: [],
    });
    expect(guests.get("111-tpm")).toBe(helper);
    expect(guests.qemu("111-tpm")).toBeUndefined();
    expect(helper.hasExited).toBe(false);
    expect(await helper.stop()).toMatchObject({ cause: "stopped", signal: 15 });
    expect(helper.hasExited).toBe(true);
  });

  it("works in a data directory with a long name", async () => {
    const short = folder;
    folder = join(short, "x".repeat(120));
    mkdirSync(join(folder, "run"), { recursive: true });
    try {
      const guest = await open().startQemu(fakeVm("112"));
      expect(await guest.qmp.execute("query-status")).toMatchObject({ running: true });
      expect(await guest.kill()).toMatchObject({ cause: "stopped", signal: 9 });
    } finally {
      folder = short;
    }
  });

  it("empties a log that grows without end, and takes a cut-off file for none", () => {
    const place = new GuestFolder(join(folder, "run/guests"), "113");
    place.create();
    place.trimLog();
    writeFileSync(place.file("log"), "x".repeat(5 * 1024 * 1024));
    place.trimLog();
    expect(place.lastWords()).toBe("");
    writeFileSync(place.file("guest.json"), "");
    expect(place.readCard()).toBeUndefined();
  });

  it("refuses names that are no folder names", () => {
    expect(() => new GuestFolder(folder, "../x")).toThrow("cannot name");
  });
});
