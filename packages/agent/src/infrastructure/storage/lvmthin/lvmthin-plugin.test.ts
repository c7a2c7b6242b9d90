// What the suite in a guest does not reach: commands and answers that a real LVM gives rarely. The plugin passes the
// conformance suite on real thin pools in test/integration/storage-lvmthin.test.ts.
import { describe, expect, it } from "vitest";
import { AppError } from "@gpve/contracts/errors.ts";
import { newStorageDefinition } from "@gpve/domain/storage/definition.ts";
import type { Exec } from "@gpve/kit/exec.ts";
import { majorOf, minorOf } from "../lvm/device-nodes.ts";
import { parseLvs } from "../lvm/lvm-report.ts";
import { storagePlugin } from "../storage-plugins.ts";
import { plainPlugins } from "../../../testing/plain-plugins.ts";

const row = (
  name: string,
  attributes: string,
  more: Record<string, string> = {},
): Record<string, string> => ({
  lv_name: name,
  lv_size: "4194304",
  lv_attr: attributes,
  pool_lv: attributes.startsWith("V") ? "data" : "",
  data_percent: "25.00",
  lv_time: "1700000000",
  ...more,
});
const rows = [
  row("data", "twi-aotz--", { lv_size: "1073741824", data_percent: "50.00" }),
  row("vm-100-disk-0", "Vwi-a-tz--"),
  row("snap_vm-100-disk-0_s1", "Vri---tz-k"),
  row("base-101-disk-0", "Vri---tz-k"),
  row("vm-102-disk-0", "-wi-a-----"),
  row("vm-103-disk-0", "Vwi-a-tz--", { pool_lv: "other" }),
];
const report = (lv: Record<string, string>[]): string => JSON.stringify({ report: [{ lv }] });

/** LVM as far as these tests ask it; every change is kept, and fails with `failure`. */
function lvm(failure?: string) {
  const calls: string[] = [];
  const exec: Exec = async (program, args) => {
    if (program === "lvs") return { code: 0, stdout: report(rows), stderr: "" };
    calls.push([program, ...args].join(" "));
    if (failure !== undefined) throw new AppError("internal.error", `${program} failed: ${failure}`);
    return { code: 0, stdout: "", stderr: "" };
  };
  const definition = newStorageDefinition("thin", "lvmthin", { vgname: "vg", thinpool: "data" });
  return { calls, plugin: storagePlugin(definition, { ...plainPlugins(exec) }) };
}

describe("the storage of thin logical volumes", () => {
  it("reads sizes, owners and space from lvs", async () => {
    const { plugin } = lvm();
    expect(await plugin.list()).toEqual([
      {
        volname: "vm-100-disk-0",
        content: "images",
        vmid: 100,
        format: "raw",
        size: 4_194_304,
        used: 1_048_576,
        ctime: 1_700_000_000,
      },
      expect.objectContaining({ volname: "base-101-disk-0", vmid: 101 }),
    ]);
    expect(await plugin.list({ vmid: 7 })).toEqual([]);
    expect(await plugin.list({ content: ["iso"] })).toEqual([]);
    expect(await plugin.status()).toEqual({
      active: true,
      total: 1_073_741_824,
      used: 536_870_912,
      avail: 536_870_912,
    });
    expect(parseLvs("{}")).toEqual([]);
    expect([majorOf(0xfd03), minorOf(0xfd03), minorOf(0x10_fd03)]).toEqual([253, 3, 259]);
  });

  it("changes volumes by the commands of PVE", async () => {
    const { plugin, calls } = lvm();
    await plugin.snapshot("vm-100-disk-0", "s2");
    await plugin.rollback("vm-100-disk-0", "s1");
    await plugin.resize("vm-100-disk-0", 8_388_608);
    expect(await plugin.createBase("vm-100-disk-0")).toBe("base-100-disk-0");
    expect(await plugin.rename("vm-100-disk-0", 200)).toBe("vm-200-disk-0");
    expect(await plugin.free("vm-100-disk-0")).toBe(true);
    expect(await plugin.free("vm-999-disk-0")).toBe(false);
    expect(calls).toEqual([
      "lvcreate -n snap_vm-100-disk-0_s2 -pr -s vg/vm-100-disk-0",
      "lvremove -f vg/vm-100-disk-0",
      "lvcreate -n vm-100-disk-0 -kn -s vg/snap_vm-100-disk-0_s1",
      "lvextend -L 8388608b vg/vm-100-disk-0",
      "lvrename vg vm-100-disk-0 base-100-disk-0",
      "lvchange -an -pr -ky vg/base-100-disk-0",
      "lvrename vg vm-100-disk-0 vm-200-disk-0",
      "lvremove -f vg/snap_vm-100-disk-0_s1",
      "lvremove -f vg/vm-100-disk-0",
    ]);
  });

  it("tells a full pool from other failures, in words of PVE", async () => {
    const full = lvm("insufficient suitable allocatable extents").plugin;
    await expect(full.alloc({ vmid: 100, format: "raw", size: 1024 })).rejects.toMatchObject({
      code: "capacity.exceeded",
      message: expect.stringContaining("lvcreate 'vg/vm-100-disk-1' error: "),
    });
    const broken = lvm("device is busy").plugin;
    await expect(broken.free("vm-100-disk-0")).rejects.toMatchObject({ code: "internal.error" });
    await expect(broken.resize("vm-100-disk-0", 1)).rejects.toThrow("shrinking disks is not supported");
    await expect(broken.attach("vm-7-disk-0")).rejects.toThrow("volume 'thin:vm-7-disk-0' does not exist");
    await expect(broken.rollback("vm-100-disk-0", "gone")).rejects.toThrow(
      "snapshot 'gone' of volume 'thin:vm-100-disk-0' does not exist",
    );
  });

  it("holds disks and nothing else", async () => {
    const { plugin, calls } = lvm();
    const refused = "illegal name 'vm-7-x' - should be 'vm-100-*'";
    await expect(plugin.alloc({ vmid: 100, format: "raw", size: 1, name: "vm-7-x" })).rejects.toThrow(
      refused,
    );
    await expect(plugin.alloc({ vmid: 100, format: "subvol", size: 0 })).rejects.toThrow(
      "unsupported format 'subvol'",
    );
    await expect(plugin.file("vm-100-disk-0")).rejects.toThrow("this storage holds no files");
    for (const work of [plugin.notes("vm-100-disk-0"), plugin.setNotes("vm-100-disk-0", "x")])
      await expect(work).rejects.toThrow("only backups can have notes");
    await expect(plugin.setProtected("vm-100-disk-0", true)).rejects.toThrow("only backups support");
    expect(await plugin.isProtected("vm-100-disk-0")).toBe(false);
    expect(plugin.block("vm-100-disk-0")).toEqual({
      node: { driver: "host_device", filename: "/dev/gpve/vg/vm-100-disk-0" },
      format: "raw",
    });
    expect(calls).toEqual([]);
  });

  it("is refused by a type that has no plugin", () => {
    const definition = { storage: "z", type: "zfspool", options: {} };
    expect(() => storagePlugin(definition, plainPlugins())).toThrow(
      "storage 'z' has type 'zfspool', which this version does not support",
    );
  });
});
