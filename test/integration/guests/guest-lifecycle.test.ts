import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { afterAll, afterEach, beforeAll, describe, expect, it } from "vitest";
import type { SupervisedQemus } from "@gpve/agent/infrastructure/guest-process/supervised-qemus.ts";
import type { EndedGuest } from "@gpve/domain/guest/guest-processes.ts";
import { waitForJob } from "@gpve/domain/vm/qmp/qmp-waits.ts";
import { exec } from "@gpve/kit/exec.ts";
import { bootable, type GuestWorld, guestWorld, missingForGuests, processesOf } from "./guest-world.ts";

const missing = missingForGuests();
if (missing !== undefined) console.warn(`SKIPPED guest lifecycle: ${missing}`);

describe.skipIf(missing !== undefined)("a guest under its supervisor", () => {
  let world: GuestWorld;
  let guests: SupervisedQemus;

  beforeAll(async () => {
    world = await guestWorld();
    guests = world.guests();
  });

  afterEach(async () => {
    await Promise.all(guests.list().map((guest) => guest.kill()));
  });

  afterAll(async () => {
    await world?.clean();
  });

  it("tells when it switched itself off, and leaves nothing running", async () => {
    const ended: EndedGuest[] = [];
    const stop = guests.onExit((end) => ended.push(end));
    const guest = await guests.startQemu(bootable("300", world.disk("300.raw", "powerOff")));
    expect(await guest.exited).toMatchObject({
      cause: "shutdown",
      reason: "guest-shutdown",
      exitCode: 0,
      outOfMemory: false,
    });
    expect(guest.hasExited).toBe(true);
    await expect.poll(() => ended.map(({ id }) => id)).toEqual(["300"]);
    expect(guests.get("300")).toBeUndefined();
    await expect.poll(() => processesOf(world.data.path)).toEqual([]);
    stop();
  });

  it("is refused a second start while it runs, also by another agent", async () => {
    const start = bootable("301", world.disk("301.raw", "halt"));
    await guests.startQemu(start);
    await expect(guests.startQemu(start)).rejects.toThrow("VM 301 already running");
    await expect(world.guests().startQemu(start)).rejects.toThrow("VM 301 already running");
  });

  it("fails with QEMU's own words when the command line is wrong, and leaves nothing", async () => {
    const bad = bootable("302", world.disk("302.raw", "halt"), { args: ["-device", "no-such-device"] });
    await expect(guests.startQemu(bad)).rejects.toMatchObject({
      code: "guest.start_failed",
      message: expect.stringContaining("'no-such-device' is not a valid device model name") as string,
    });
    expect(existsSync(world.data.file("run", "guests", "302"))).toBe(false);
    await expect.poll(() => processesOf(world.data.path)).toEqual([]);
  });

  it("fails with the reason when the program or a file is missing", async () => {
    const disk = world.disk("303.raw", "halt");
    await expect(
      guests.startQemu({ ...bootable("303", disk), program: "/usr/bin/no-such-qemu" }),
    ).rejects.toMatchObject({ code: "guest.start_failed" });
    await expect(
      guests.startQemu({ ...bootable("303", disk), files: [{ path: `${disk}.gone`, access: "rw" }] }),
    ).rejects.toThrow(".gone");
  });

  it("serves sockets that are handed to it", async () => {
    const guest = await guests.startQemu(
      bootable("304", world.disk("304.raw", "serial"), {
        sockets: [{ name: "serial0", fd: 40 }],
        args: ["-chardev", "socket,id=serial0,fd=40,server=on,wait=off", "-serial", "chardev:serial0"],
      }),
    );
    expect(existsSync(guest.socketPath("serial0"))).toBe(true);
    const { stdout } = await exec("/usr/bin/env", ["stat", "-c", "%u %a", guest.socketPath("serial0")]);
    expect(stdout.trim()).toBe("0 600");
  });

  it("is stopped, and killed when it does not listen", async () => {
    const polite = await guests.startQemu(bootable("305", world.disk("305.raw", "halt")));
    expect(await polite.stop()).toMatchObject({ cause: "stopped", exitCode: 0 });
    const deaf = await guests.startQemu(bootable("306", world.disk("306.raw", "halt")));
    process.kill(deaf.pid, "SIGSTOP");
    expect(await deaf.stop({ timeoutMs: 300 })).toMatchObject({ cause: "stopped", signal: 9 });
  });

  it("mirrors a disk to a new file it was just given", async () => {
    const guest = await guests.startQemu(bootable("307", world.disk("307.raw", "halt")));
    const target = world.disk("307-copy.raw", "spin");
    await guest.allowFile({ path: target, access: "rw" });
    await guest.qmp.execute("blockdev-add", {
      driver: "raw",
      "node-name": "copy",
      file: { driver: "file", filename: target },
    });
    await guest.qmp.execute("blockdev-mirror", {
      "job-id": "m",
      device: "disk0",
      target: "copy",
      sync: "full",
      "auto-dismiss": false,
    });
    await waitForJob(guest.qmp, "m", ["ready"]);
    await guest.qmp.execute("job-complete", { id: "m" });
    await waitForJob(guest.qmp, "m", ["concluded"]);
    await guest.qmp.execute("job-dismiss", { id: "m" });
    expect(readFileSync(target)).toEqual(readFileSync(world.data.file("307.raw")));
  });

  it("runs other programs than QEMU in the same way", async () => {
    const script = world.data.file("endless");
    writeFileSync(script, "", { mode: 0o644 });
    const helper = await guests.start({
      id: "308-helper",
      label: "helper of VM 308",
      program: "/usr/bin/sleep",
      args: ["1000"],
      files: [],
    });
    expect(guests.qemu("308-helper")).toBeUndefined();
    expect(await helper.stop()).toMatchObject({ cause: "stopped", signal: 15 });
  });
});
