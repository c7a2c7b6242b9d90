import { describe, expect, it } from "vitest";
import {
  appendToBootOrder,
  bootIndexes,
  checkBootOrder,
  defaultBootDevices,
  dropFromBootOrder,
} from "./boot-order.ts";

const devices = {
  efidisk0: "l1:e",
  ide2: "none,media=cdrom",
  net1: "virtio",
  net3: "virtio",
  scsi0: "l1:x",
  virtio0: "l1:y",
};

describe("boot order", () => {
  it("defaults to the first disk, CD drive and NIC", () => {
    expect(defaultBootDevices(devices)).toEqual(["scsi0", "ide2", "net1"]);
    expect(defaultBootDevices({ efidisk0: "l1:e" })).toEqual([]);
  });

  it("numbers the devices of an order", () => {
    expect([...bootIndexes({ ...devices, boot: "order=net1;scsi0" })]).toEqual([
      ["net1", 100],
      ["scsi0", 101],
    ]);
    expect(bootIndexes({ ...devices, boot: " " }).size).toBe(0);
  });

  it("reads the letters of old releases", () => {
    expect([...bootIndexes({ ...devices, bootdisk: "virtio0" })]).toEqual([
      ["ide2", 200],
      ["virtio0", 101],
      ["net1", 300],
      ["net3", 301],
    ]);
    expect([...bootIndexes({ ...devices, boot: "d" })]).toEqual([["ide2", 100]]);
  });

  it("refuses devices that are not there", () => {
    checkBootOrder({ ...devices, boot: "order=scsi0" });
    checkBootOrder(devices);
    expect(() => {
      checkBootOrder({ ...devices, boot: "order=scsi9" });
    }).toThrow("invalid bootorder: device 'scsi9' does not exist'");
  });

  it("follows devices that come and go", () => {
    const ordered = { ...devices, boot: "order=scsi0;net1" };
    expect(dropFromBootOrder(ordered, "scsi0")["boot"]).toBe("order=net1");
    expect(dropFromBootOrder(ordered, "sata0")).toBe(ordered);
    expect(dropFromBootOrder(devices, "scsi0")).toBe(devices);
    expect(appendToBootOrder(ordered, "ide2")["boot"]).toBe("order=scsi0;net1;ide2");
    expect(appendToBootOrder(ordered, "net1")).toBe(ordered);
    expect(appendToBootOrder({ ...devices, boot: "cdn" }, "ide2")["boot"]).toBe("cdn");
  });
});
