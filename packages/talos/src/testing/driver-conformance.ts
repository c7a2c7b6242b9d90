// What every driver must do, run on the fakes and on a real gpve alike.
import { expect, test } from "vitest";
import type { Driver } from "../driver/driver.ts";

export interface DriverWorld {
  readonly driver: Driver;
  /** A node that is there, with this storage for disks. */
  readonly host: string;
  readonly storage: string;
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
    await driver.start(place());
    expect(await guest()).toMatchObject({ isRunning: true });
    await driver.stop(place());
    expect(await guest()).toMatchObject({ isRunning: false });
    await driver.deleteGuest(place());
    expect(await guest()).toBeUndefined();
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
