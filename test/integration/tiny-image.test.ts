// The tiny Linux guest is what many other tests stand on: it must boot from every kind of disk, talk and obey.
import { existsSync } from "node:fs";
import { afterEach, describe, expect, it, vi } from "vitest";
import { type BareQemu, bareQemu, QEMU } from "../support/bare-qemu.ts";
import { tinyImage } from "../support/images.ts";

const missing = existsSync(QEMU) ? undefined : `no ${QEMU}: apt-get install qemu-system-x86 qemu-utils`;
if (missing !== undefined) console.warn(`SKIPPED the tiny image: ${missing}`);

describe.skipIf(missing !== undefined)("the tiny image", () => {
  let guest: BareQemu | undefined;
  afterEach(async () => guest?.stop());

  const boot = async (...args: string[]): Promise<BareQemu> => {
    guest = await bareQemu(await tinyImage(), args);
    const text = await guest.until(/tiny: ready after [\d.]+ s/);
    console.log(/tiny: ready after .*/.exec(text)?.[0]);
    return guest;
  };

  it("boots, has an agent, a counter, a shell and a network, and obeys the power button", async () => {
    const qemu = await boot(
      "-device",
      "virtio-blk-pci,drive=disk",
      "-nic",
      "user,model=virtio-net-pci",
      "-smp",
      "2",
    );
    await vi.waitFor(async () => expect(await qemu.agent.isRunning()).toBe(true), { timeout: 60_000 });
    expect(await qemu.agent.execute("guest-get-osinfo")).toMatchObject({ id: "gpve-tiny" });
    await qemu.until("eth0 has 10.0.2.15");
    const interfaces = JSON.stringify(await qemu.agent.execute("guest-network-get-interfaces"));
    expect(interfaces).toContain("10.0.2.15");
    const first = Number(await qemu.run("/bin/cat", "/run/counter"));
    await vi.waitFor(
      async () => expect(Number(await qemu.run("/bin/cat", "/run/counter"))).toBeGreaterThan(first),
      {
        timeout: 20_000,
      },
    );
    expect(await qemu.run("/bin/wget", "-q", "-O", "-", "http://127.0.0.1/")).toBe("tiny\n");
    qemu.type("echo $((6 * 7))-from-the-shell");
    await qemu.until("42-from-the-shell");
    expect(await qemu.agent.execute("guest-fsfreeze-freeze")).toBeGreaterThanOrEqual(1);
    expect(await qemu.agent.execute("guest-fsfreeze-thaw")).toBeGreaterThanOrEqual(1);
    await qemu.monitor.execute("block_resize", { "node-name": "disk", size: 256 * 1024 * 1024 });
    await vi.waitFor(
      async () => expect((await qemu.run("/bin/cat", "/sys/block/vda/size")).trim()).toBe("524288"),
      { timeout: 20_000 },
    );
    await qemu.monitor.execute("system_powerdown");
    expect(await qemu.exited).toBe(0);
    expect(qemu.serial()).toContain("tiny: poweroff");
  });

  it("boots from a SCSI disk and shuts down through its agent", async () => {
    const qemu = await boot("-device", "virtio-scsi-pci", "-device", "scsi-hd,drive=disk");
    await vi.waitFor(async () => expect(await qemu.agent.isRunning()).toBe(true), { timeout: 60_000 });
    expect(await qemu.run("/bin/cat", "/proc/mounts")).toContain("/dev/sda2 /data ext4 rw");
    await qemu.run("/sbin/shutdown", "-h").catch(() => "it is gone before it can answer");
    expect(await qemu.exited).toBe(0);
  });

  it("boots from an IDE disk", async () => {
    const qemu = await boot("-device", "ide-hd,drive=disk");
    qemu.type("cat /proc/partitions");
    await qemu.until("sda2");
  });
});
