// What every driver must do, run on the fakes and on a real gpve alike.
import { createHash } from "node:crypto";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, test } from "vitest";
import type { Driver } from "../driver/driver.ts";

export interface DriverWorld {
  readonly driver: Driver;
  /** A node that is there, with this storage for disks. */
  readonly host: string;
  readonly storage: string;
  /** Whoever uploads files, where this driver may not. */
  readonly uploader?: Driver;
  /** A VMID nobody has. */
  readonly vmid: number;
}

export function driverConformance(world: () => DriverWorld): void {
  const place = () => ({ host: world().host, vmid: world().vmid });
  const guest = async () => {
    const { driver, host, vmid } = world();
    const { guests } = await driver.observe([host]);
    return guests.find((each) => each.vmid === vmid);
  };

  test("what is there is seen: nodes with their room, storages and bridges", async () => {
    const { driver, host, storage } = world();
    const { version, nodes } = await driver.observe([host, "no-such-node"]);
    expect(version).toMatch(/^\d+\.\d+/);
    expect(nodes.map(({ name }) => name)).toEqual([host]);
    expect(nodes[0]).toMatchObject({ isOnline: true });
    expect(nodes[0]?.cpus).toBeGreaterThan(0);
    expect(nodes[0]?.memoryMiB).toBeGreaterThan(nodes[0]?.memoryUsedMiB ?? Infinity);
    const found = nodes[0]?.storages.find(({ name }) => name === storage);
    expect(found).toMatchObject({ isActive: true });
    expect(found?.contents).toContain("images");
    expect(found?.freeGiB).toBeGreaterThan(0);
    expect(Array.isArray(await driver.volumes(host, storage, "images"))).toBe(true);
    expect(["string", "undefined"]).toContain(typeof (await driver.address()));
    expect((await driver.pciMappings()).has("no-such-mapping")).toBe(false);
  });

  test("a guest is made, seen, changed, grown, started, stopped and deleted", async () => {
    const { driver, storage } = world();
    expect(await guest()).toBeUndefined();
    const config = {
      name: "driver-test",
      memory: "64",
      cores: "1",
      tags: "driver;test",
      smbios1: "uuid=338085e1-f323-51fe-9a79-ffcfffe38931",
      scsi0: `${storage}:1`,
    };
    await driver.createGuest(place(), config);
    expect(await guest()).toMatchObject({
      name: "driver-test",
      host: place().host,
      isRunning: false,
      isTemplate: false,
      tags: ["driver", "test"],
      memoryMiB: 64,
    });
    expect(await driver.guestConfig(place())).toMatchObject({ cores: "1", smbios1: config.smbios1 });
    await driver.changeGuest(place(), { memory: "96" });
    expect(await driver.guestConfig(place())).toMatchObject({ memory: "96" });
    await driver.resizeDisk(place(), "scsi0", 2);
    expect((await driver.guestConfig(place()))["scsi0"]).toContain("size=2G");
    await driver.changeGuest(place(), { scsi1: `${storage}:1,discard=on` });
    expect((await driver.guestConfig(place()))["scsi1"]).toMatch(new RegExp(`^${storage}:.*size=1G`));
    await driver.resizeDisk(place(), "scsi1", 2);
    expect((await driver.guestConfig(place()))["scsi1"]).toContain("size=2G");
    await driver.start(place());
    expect(await guest()).toMatchObject({ isRunning: true });
    await driver.stop(place());
    expect(await guest()).toMatchObject({ isRunning: false });
    await driver.deleteGuest(place());
    expect(await guest()).toBeUndefined();
  });

  test("a template is cloned, and not removed while a linked clone reads from it", async () => {
    const { driver, host, storage, vmid } = world();
    const clone = { host, vmid: vmid + 1 };
    const full = { host, vmid: vmid + 2 };
    await driver.createGuest(place(), { name: "driver-template", memory: "64", scsi0: `${storage}:1` });
    await driver.makeTemplate(place());
    expect(await guest()).toMatchObject({ isTemplate: true });
    expect(await driver.linkedClones(host, storage)).not.toContainEqual({
      template: vmid,
      guest: clone.vmid,
    });
    const request = { name: "driver-clone", description: "to become something", pool: null };
    await driver.cloneGuest(place(), clone, { ...request, isFull: false });
    await driver.cloneGuest(place(), full, { ...request, isFull: true });
    expect(await driver.linkedClones(host, storage)).toContainEqual({ template: vmid, guest: clone.vmid });
    expect(await driver.linkedClones(host, storage)).not.toContainEqual({ template: vmid, guest: full.vmid });
    expect((await driver.guestConfig(clone))["description"]?.trim()).toBe("to become something");
    await expect(driver.deleteGuest(place())).rejects.toThrow(/still in use/);
    expect(await guest()).toMatchObject({ isTemplate: true });
    await driver.deleteGuest(clone);
    await driver.deleteGuest(place());
    await driver.deleteGuest(full);
    expect(await guest()).toBeUndefined();
  });

  test("a guest is backed up, and brought back over what became of it, and where it is gone", async () => {
    const { driver, host, vmid, storage } = world();
    const mine = async () => (await driver.backups(host, "local")).filter((each) => each.vmid === vmid);
    await driver.createGuest(place(), { name: "driver-backup", memory: "64", scsi0: `${storage}:1` });
    await driver.backupGuest(place(), "local", "of the driver's test");
    const [backup] = await mine();
    expect(backup?.volume).toMatch(new RegExp(`^local:backup/vzdump-qemu-${vmid}-.*vma`));
    expect(backup?.at).toBeGreaterThan(1_700_000_000_000);
    const volume = backup?.volume ?? "";
    expect(await driver.backupConfig(host, volume)).toMatchObject({ name: "driver-backup", memory: "64" });
    await driver.changeGuest(place(), { name: "changed" });
    await driver.restoreGuest(place(), volume);
    expect(await driver.guestConfig(place())).toMatchObject({ name: "driver-backup" });
    await driver.deleteGuest(place());
    await driver.restoreGuest(place(), volume);
    expect(await guest()).toMatchObject({ name: "driver-backup", isRunning: false });
    await driver.deleteGuest(place());
    await driver.deleteVolume(host, volume);
    expect(await mine()).toEqual([]);
  });

  test("an ISO that is uploaded lies in a drive, and is taken out while the guest runs", async () => {
    const { driver, host, vmid } = world();
    const folder = mkdtempSync(join(tmpdir(), "gpve-driver-iso-"));
    const path = join(folder, "empty.iso");
    const bytes = Buffer.alloc(64 * 1024);
    writeFileSync(path, bytes);
    const sha256 = createHash("sha256").update(bytes).digest("hex");
    const name = `driver-${vmid}.iso`;
    try {
      await (world().uploader ?? driver).uploadImage(host, "local", { name, content: "iso", path, sha256 });
      expect(await driver.volumes(host, "local", "iso")).toContain(`local:iso/${name}`);
      expect(await driver.volumes(host, "local", "import")).not.toContain(`local:iso/${name}`);
      await driver.createGuest(place(), {
        name: "from-iso",
        memory: "64",
        machine: "q35",
        scsi0: `${world().storage}:1`,
        ide0: `local:iso/${name},media=cdrom`,
        boot: "order=scsi0;ide0",
      });
      await driver.start(place());
      await driver.changeGuest(place(), { ide0: "none,media=cdrom" });
      expect(await driver.guestConfig(place())).toMatchObject({
        ide0: "none,media=cdrom",
        boot: "order=scsi0;ide0",
      });
      await driver.stop(place());
      await driver.deleteGuest(place());
    } finally {
      rmSync(folder, { recursive: true });
    }
  });

  test("an account is made with its role, and again with another secret", async () => {
    const { driver } = world();
    const account = {
      user: "driver-test@pve",
      token: "ccm",
      role: "driver-test",
      privileges: ["VM.Audit", "VM.GuestAgent.Audit", "Sys.Audit"],
      paths: ["/vms", "/nodes"],
    };
    const first = await driver.makeAccount(account);
    expect(first).toEqual({ id: "driver-test@pve!ccm", secret: expect.stringMatching(/.{8}/) });
    const second = await driver.makeAccount(account);
    expect(second.id).toBe(first.id);
    expect(second.secret).not.toBe(first.secret);
  });

  test("what cannot be done fails, and the reason is the platform's", async () => {
    const { driver } = world();
    await driver.createGuest(place(), { name: "first", memory: "64" });
    await expect(driver.createGuest(place(), { name: "second" })).rejects.toThrow(/already exists/);
    expect(await guest()).toMatchObject({ name: "first" });
    await driver.deleteGuest(place());
    await expect(driver.start(place())).rejects.toThrow(/does not exist/);
  });
}
