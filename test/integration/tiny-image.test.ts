// The tiny Linux guest is what many other tests stand on: it must boot from every kind of disk, talk and obey.
import { createHash } from "node:crypto";
import { existsSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, afterEach, describe, expect, it, vi } from "vitest";
import { isoImage } from "@gpve/agent/infrastructure/cloudinit/iso-image.ts";
import { cloudinitDrive } from "@gpve/domain/vm/cloudinit/cloudinit-drive.ts";
import type { VmValues } from "@gpve/domain/vm/config/vm-config.ts";
import { type BareQemu, bareQemu, QEMU } from "../support/bare-qemu.ts";
import { tinyImage } from "../support/images.ts";

const missing = existsSync(QEMU) ? undefined : `no ${QEMU}: apt-get install qemu-system-x86 qemu-utils`;
if (missing !== undefined) console.warn(`SKIPPED the tiny image: ${missing}`);
/** Every other test boots it too: what none of them has is left to the long run. */
const ALL_BOOTS = process.env["GPVE_TINY_BOOTS"] !== undefined;

describe.skipIf(missing !== undefined)("the tiny image", () => {
  let guest: BareQemu | undefined;
  const folder = mkdtempSync(join(tmpdir(), "gpve-seed-"));
  afterEach(async () => guest?.stop());
  afterAll(() => rmSync(folder, { recursive: true, force: true }));

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
    await vi.waitFor(async () => expect(await qemu.agent.isRunning()).toBe(true), { timeout: 150_000 });
    expect(await qemu.agent.execute("guest-get-osinfo")).toMatchObject({ id: "gpve-tiny" });
    await qemu.until("eth0 has 10.0.2.15");
    const interfaces = JSON.stringify(await qemu.agent.execute("guest-network-get-interfaces"));
    expect(interfaces).toContain("10.0.2.15");
    const first = Number(await qemu.run("/bin/cat", "/run/counter"));
    await vi.waitFor(
      async () => expect(Number(await qemu.run("/bin/cat", "/run/counter"))).toBeGreaterThan(first),
      {
        timeout: 150_000,
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
      { timeout: 150_000 },
    );
    await qemu.monitor.execute("system_powerdown");
    expect(await qemu.exited).toBe(0);
    expect(qemu.serial()).toContain("tiny: poweroff");
  });

  it.skipIf(!ALL_BOOTS)("boots from a SCSI disk and shuts down through its agent", async () => {
    const qemu = await boot("-device", "virtio-scsi-pci", "-device", "scsi-hd,drive=disk");
    await vi.waitFor(async () => expect(await qemu.agent.isRunning()).toBe(true), { timeout: 150_000 });
    expect(await qemu.run("/bin/cat", "/proc/mounts")).toContain("/dev/sda2 /data ext4 rw");
    await qemu.run("/sbin/shutdown", "-h").catch(() => "it is gone before it can answer");
    expect(await qemu.exited).toBe(0);
  });

  it.skipIf(!ALL_BOOTS)("boots from an IDE disk", async () => {
    const qemu = await boot("-device", "ide-hd,drive=disk");
    qemu.type("cat /proc/partitions");
    expect(await qemu.until("sda2")).toContain("sda2");
  });

  const MAC = "BC:24:11:00:00:07";
  const values: VmValues = {
    name: "seeded.example.org",
    ciuser: "ann",
    sshkeys: encodeURIComponent("ssh-ed25519 AAAA ann@home\nssh-rsa BBBB # second\n"),
    net0: `virtio=${MAC},bridge=vmbr0`,
    ipconfig0: "ip=192.0.2.7/28,gw=192.0.2.1,ip6=2001:db8::7/64",
    nameserver: "192.0.2.53",
    searchdomain: "example.org",
  };

  const bootSeeded = async (config: VmValues, networkVersion: 1 | 2, device: string[]): Promise<BareQemu> => {
    const drive = await cloudinitDrive(config, {
      vmid: 100,
      dns: {},
      sha1: (text) => createHash("sha1").update(text).digest("hex"),
      base64: (text) => Buffer.from(text).toString("base64"),
      snippet: () => Promise.reject(new Error("no snippets here")),
      networkVersion,
    });
    const iso = join(folder, "seed.iso");
    writeFileSync(iso, isoImage(drive));
    return boot(
      "-device",
      "virtio-blk-pci,drive=disk",
      "-blockdev",
      `driver=raw,node-name=seed,read-only=on,file.driver=file,file.filename=${iso}`,
      ...device,
      "-nic",
      `user,model=virtio-net-pci,mac=${MAC}`,
    );
  };

  const seeds = [
    { what: "NoCloud, version 2", more: {}, version: 2, device: ["-device", "ide-cd,drive=seed"] },
    { what: "NoCloud, version 1", more: {}, version: 1, device: ["-device", "ide-cd,drive=seed"] },
    {
      what: "a config drive on SCSI",
      more: { citype: "configdrive2" },
      version: 1,
      device: ["-device", "virtio-scsi-pci", "-device", "scsi-cd,drive=seed"],
    },
  ] as const;

  it.each(seeds.slice(0, ALL_BOOTS ? undefined : 1))(
    "obeys a cloud-init drive: $what",
    async ({ more, version, device }) => {
      const qemu = await bootSeeded({ ...values, ...more }, version, [...device]);
      expect(qemu.serial()).toMatch(/ready after [\d.]+ s, hostname seeded,/);
      await vi.waitFor(async () => expect(await qemu.agent.isRunning()).toBe(true), { timeout: 150_000 });
      const shown = await qemu.run(
        "/bin/sh",
        "-c",
        "ip addr show dev eth0; ip route; cat /etc/resolv.conf /home/ann/.ssh/authorized_keys",
      );
      expect(shown).toContain("inet 192.0.2.7/28");
      expect(shown).toContain("inet6 2001:db8::7/64");
      expect(shown).toContain("default via 192.0.2.1 dev eth0");
      expect(shown).toContain("nameserver 192.0.2.53");
      expect(shown).toContain("search example.org");
      expect(shown).toContain("ssh-ed25519 AAAA ann@home\nssh-rsa BBBB # second\n");
    },
  );
});
