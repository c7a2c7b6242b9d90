import fc from "fast-check";
import { describe, expect, it } from "vitest";
import {
  lvmSnapshotName,
  lvmSnapshotOf,
  parseLvmVolume,
  requireLvmName,
  requireLvmVolume,
} from "./lvm-volume.ts";

describe("volume names of thin LVM storages", () => {
  it("say whose they are and whether they are templates'", () => {
    expect(parseLvmVolume("vm-100-disk-0")).toEqual({
      type: "images",
      name: "vm-100-disk-0",
      vmid: 100,
      isBase: false,
      format: "raw",
    });
    expect(requireLvmVolume("base-9000-disk-1")).toMatchObject({ vmid: 9000, isBase: true });
    expect(parseLvmVolume("vm-100-state-before_1")).toMatchObject({ vmid: 100 });
  });

  it.each([
    "",
    "x",
    "vm-0-disk-0",
    "vm-100-",
    "snap_vm-100-disk-0_a",
    "100/vm-100-disk-0",
    "vm-100-a/b",
    "vm-100-a b",
    "vm-100-a\n",
  ])("refuses %j", (volname) => {
    expect(() => requireLvmVolume(volname)).toThrow(`unable to parse lvm volume name '${volname}'`);
  });

  it("never lead out of their group's folder", () => {
    fc.assert(
      fc.property(fc.string(), (text) => {
        const name = parseLvmVolume(text)?.name ?? "";
        expect(/[/\s\0]/.test(name) || name.startsWith("-") || name.startsWith(".")).toBe(false);
      }),
    );
    for (const name of ["..", ".", "-f", "a/b", "", "a b"])
      expect(() => requireLvmName(name, "volume group")).toThrow("volume group");
    expect(requireLvmName("pve-vg_1", "volume group")).toBe("pve-vg_1");
  });

  it("tell the snapshots of one volume from those of another", () => {
    expect(lvmSnapshotName("vm-100-disk-1", "a")).toBe("snap_vm-100-disk-1_a");
    expect(lvmSnapshotOf("vm-100-disk-1", "snap_vm-100-disk-1_before_x")).toBe("before_x");
    expect(lvmSnapshotOf("vm-100-disk-1", "snap_vm-100-disk-11_a")).toBeUndefined();
    expect(lvmSnapshotOf("vm-100-disk-1", "vm-100-disk-1")).toBeUndefined();
  });
});
