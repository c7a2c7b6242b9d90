// What root gives to a guest, and what a guest could put in its place: real QEMU, real users.
import { chownSync, existsSync, renameSync, statSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { GuestFolder } from "../../../packages/agent/src/infrastructure/guest-process/guest-folder.ts";
import { lendFile } from "../../../packages/agent/src/infrastructure/guest-process/lent-files.ts";
import { bootable, type GuestWorld, guestWorld, missingForGuests } from "./guest-world.ts";

const missing = missingForGuests();
if (missing !== undefined) console.warn(`SKIPPED lent files: ${missing}`);

describe.skipIf(missing !== undefined)("a file of the host that a guest is lent", () => {
  let world: GuestWorld;
  let path: string;
  beforeEach(async () => {
    world = await guestWorld();
    path = join(world.data.path, "port");
    writeFileSync(path, "x".repeat(512), { mode: 0o640 });
    chownSync(path, 0, 6);
  });
  afterEach(async () => {
    await world?.clean();
  });
  const owner = () => {
    const { uid, gid, mode } = statSync(path);
    return [uid, gid, mode & 0o777];
  };
  const AS_BEFORE = [0, 6, 0o640];
  const lent = { access: "rw", owned: true, ofHost: true } as const;

  it("is given back when its start fails, wherever that is", async () => {
    const disk = world.disk("100.raw", "halt");
    const own = [
      { path: disk, access: "rw" },
      { path, ...lent },
    ] as const;
    const failing = [
      // a file that cannot be had, after others were
      bootable("100", disk, { files: [...own, { path: join(world.data.path, "none"), access: "rw" }] }),
      // QEMU itself
      bootable("100", disk, { files: own, args: ["-device", "no-such-device"] }),
      // its supervisor
      bootable("100", disk, { files: own, program: "/usr/share" }),
    ];
    for (const start of failing) {
      await expect(world.guests().startQemu(start)).rejects.toThrow(/VM 100|accessible/);
      expect(owner()).toEqual(AS_BEFORE);
    }
  });

  it("is given back by the next agent when one died before the guest began", async () => {
    const folder = new GuestFolder(world.data.file("run", "guests"), "100");
    folder.create();
    await lendFile(folder, { path, ...lent }, 0x4000_0007);
    expect(owner()[0]).toBe(0x4000_0007);
    await world.guests().adopt();
    expect(owner()).toEqual(AS_BEFORE);
    expect(existsSync(folder.path)).toBe(false);
  });

  it("is given back when a running guest does not get it after all", async () => {
    const disk = world.disk("100.raw", "halt");
    const guest = await world.guests().startQemu(bootable("100", disk));
    // Nobody is there who could mount it into the guest's view.
    const socket = world.data.file("run", "guests", "100", "control.sock");
    renameSync(socket, `${socket}.away`);
    await expect(guest.allowFile({ path, ...lent })).rejects.toThrow("control.sock");
    renameSync(`${socket}.away`, socket);
    expect(owner()).toEqual(AS_BEFORE);
    await guest.allowFile({ path, ...lent });
    expect(owner()[0]).toBe(guest.uid);
    await guest.forbidFile(path);
    expect(owner()).toEqual(AS_BEFORE);
  });

  it("is not given away by a link that a guest or its helper put into its own folder", async () => {
    const disk = world.disk("100.raw", "halt");
    const guest = await world.guests().startQemu(bootable("100", disk));
    const link = join(guest.ioFolder, "swtpm");
    symlinkSync(path, link);
    await expect(guest.allowFile({ path: link, access: "rw", owned: true })).rejects.toThrow(
      "is a link where",
    );
    await expect(
      world.guests().startQemu(bootable("101", disk, { files: [{ path: link, access: "rw", owned: true }] })),
    ).rejects.toThrow("is a link where");
    expect(owner()).toEqual(AS_BEFORE);
  });
});
