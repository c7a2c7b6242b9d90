import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { madeUpExec } from "../../testing/made-up-host.ts";
import { DiskInventory } from "./disk-inventory.ts";
import { LinuxDiskHost } from "./linux-disk-host.ts";
import { lifeLeft, parseSmart } from "./smart-data.ts";

let sys = "";
const write = (path: string, text: string): void => {
  mkdirSync(dirname(join(sys, path)), { recursive: true });
  writeFileSync(join(sys, path), text);
};
const disk = (name: string, files: Record<string, string> = {}): void => {
  const all = { size: "2048\n", "queue/rotational": "0\n", "device/model": "DISK\n", ...files };
  for (const [file, text] of Object.entries(all)) write(`${name}/${file}`, text);
};
const inventory = (programs: Record<string, string>): DiskInventory =>
  new DiskInventory(new LinuxDiskHost({ exec: madeUpExec(programs), sys, mounts: join(sys, "mounts") }));
const udev = (name: string, ...more: string[]): string =>
  ["DEVTYPE=disk", `DEVNAME=/dev/${name}`, ...more].map((line) => `E: ${line}\n`).join("");

beforeEach(() => {
  sys = mkdtempSync(join(tmpdir(), "gpve-disks-"));
});
afterEach(() => rmSync(sys, { recursive: true, force: true }));

test("without any tool a disk has what the kernel says of it", async () => {
  disk("vda");
  disk("loop0");
  disk("zram0");
  const found = await inventory({}).list({ smart: true, partitions: false });
  expect([...found]).toEqual([
    [
      "vda",
      {
        devpath: "/dev/vda",
        vendor: "unknown",
        model: "DISK",
        size: 1_048_576,
        serial: "unknown",
        gpt: false,
        rpm: 0,
        type: "ssd",
        wwn: "unknown",
        health: "UNKNOWN",
        wearout: "N/A",
        osdid: -1,
        "osdid-list": null,
      },
    ],
  ]);
});

test("partitions say what they are for, and a disk what its first known one is for", async () => {
  disk("sda", {
    "sda1/size": "100\n",
    "sda2/size": "200\n",
    "sda3/size": "300\n",
    "sda4/size": "400\n",
    "sda4/holders/dm-0": "",
    "sda5/size": "500\n",
    "device/vendor": "ATA     \n",
  });
  write("mounts", "/dev/sda2 / ext4 rw 0 0\nproc /proc proc rw 0 0\n");
  const host = inventory({
    "udevadm info": udev("sda", "ID_PART_TABLE_TYPE=gpt", "ID_SERIAL_SHORT=S1", "ID_MODEL=M1", "ID_WWN=0x5"),
    lsblk: JSON.stringify({
      blockdevices: [
        {
          path: "/dev/sda",
          children: [
            { path: "/dev/sda1", parttype: "c12a7328-f81f-11d2-ba4b-00a0c93ec93b", fstype: "vfat" },
            { path: "/dev/sda2", parttype: null, fstype: "ext4" },
          ],
        },
      ],
    }),
    pvs: "  /dev/sda3\n",
  });
  const listed = await host.list({ smart: false, partitions: true });
  expect([...listed].map(([name, row]) => [name, row.used, row["mounted"], row["parent"], row.size])).toEqual(
    [
      ["sda", "partitions", undefined, undefined, 1_048_576],
      ["sda1", "EFI", undefined, "/dev/sda", 51_200],
      ["sda2", "ext4", true, "/dev/sda", 102_400],
      ["sda3", "LVM", undefined, "/dev/sda", 153_600],
      ["sda4", "Device Mapper", undefined, "/dev/sda", 204_800],
      ["sda5", undefined, undefined, "/dev/sda", 256_000],
    ],
  );
  const alone = await host.list({ smart: false, partitions: false });
  expect([...alone]).toHaveLength(1);
  expect(alone.get("sda")).toMatchObject({
    used: "EFI",
    vendor: "ATA",
    model: "M1",
    serial: "S1",
    wwn: "0x5",
    gpt: true,
  });
});

test("knows what spins, what comes by USB, and leaves out CD drives, empty slots and remote disks", async () => {
  disk("sda", { "queue/rotational": "1\n" });
  disk("sdb", { "queue/rotational": "1\n" });
  disk("sdc");
  disk("sdd", { size: "0\n" });
  disk("sde", { "queue/rotational": "1\n" });
  disk("elsewhere/host3/session1/sdf");
  symlinkSync(join(sys, "elsewhere/host3/session1/sdf"), join(sys, "sdf"));
  const info = (name: string): string => `udevadm info -p ${join(sys, name)}`;
  const host = inventory({
    [info("sda")]: udev("sda", "ID_ATA_ROTATION_RATE_RPM=7200"),
    [info("sdb")]: udev("sdb", "ID_BUS=usb"),
    [info("sdc")]: udev("sdc", "ID_CDROM=1"),
    [info("sdd")]: udev("sdd"),
    [info("sde")]: udev("sde", "DEVLINKS=/dev/disk/by-id/wwn-0x5 /dev/disk/by-id/ata-M_S"),
    [info("sdf")]: udev("sdf"),
    "smartctl -H": "SMART overall-health self-assessment test result: PASSED\n",
  });
  const found = await host.list({ smart: true, partitions: false });
  expect(
    [...found].map(([name, row]) => [name, row["type"], row["rpm"], row["health"], row["by_id_link"]]),
  ).toEqual([
    ["sda", "hdd", 7200, "PASSED", undefined],
    ["sdb", "usb", 0, "PASSED", undefined],
    ["sde", "unknown", -1, "PASSED", "/dev/disk/by-id/ata-M_S"],
  ]);
});

test("disks of ZFS and Ceph are theirs", async () => {
  disk("nvme0n1");
  disk("sdb", { "sdb1/size": "1\n" });
  disk("sdc");
  write("mounts", "/dev/sdb1 /var/lib/ceph/osd/ceph-7 xfs rw 0 0\n");
  const info = (name: string): string => `udevadm info -p ${join(sys, name)}`;
  const found = await inventory({
    [info("nvme0n1")]: udev("nvme0n1"),
    [info("sdb")]: udev("sdb"),
    [info("sdc")]: udev("sdc"),
    zpool: "tank\t1T\n\t/dev/nvme0n1\t1T\t-\n",
    lvs: "  /dev/sdc(0);osd-block-1;ceph.osd_id=3,ceph.encrypted=1\n  /dev/sdc(9);osd-db-2;ceph.osd_id=4\n",
  }).list({ smart: false, partitions: false });
  expect(found.get("nvme0n1")).toMatchObject({ used: "ZFS", type: "nvme" });
  expect(found.get("sdb")).toMatchObject({ used: "mounted", osdid: 7, "osdid-list": [7], bluestore: false });
  expect(found.get("sdc")).toMatchObject({ osdid: 3, bluestore: true, osdencrypted: true, db: 1 });
});

test("reads attributes of ATA disks and the text of others", async () => {
  const ata = parseSmart(
    [
      "=== START OF READ SMART DATA SECTION ===",
      "SMART overall-health self-assessment test result: PASSED",
      "",
      "Vendor Specific SMART Attributes with Thresholds:",
      "ID# ATTRIBUTE_NAME          FLAGS    VALUE WORST THRESH FAIL RAW_VALUE",
      "  9 Power_On_Hours          -O--CK   099   098   ---    -    1234 (5)",
      "177 Wear_Leveling_Count     PO--C-   093   093   010    -    55",
      "",
    ].join("\n"),
  );
  expect(ata).toMatchObject({ health: "PASSED", type: "ata" });
  expect(ata).not.toHaveProperty("text");
  expect(ata.attributes?.[0]).toEqual({
    id: "  9",
    name: "Power_On_Hours",
    flags: "-O--CK",
    value: 99,
    normalized: 99,
    worst: 98,
    threshold: 0,
    fail: "-",
    raw: "1234 (5)",
  });
  expect(lifeLeft(ata)).toBe(93);
  const nvme = parseSmart("=== START OF SMART DATA SECTION ===\nPercentage Used:  12%\n");
  expect(nvme).toEqual({ type: "text", text: "Percentage Used:  12%\n", wearout: 88 });
  expect(lifeLeft(nvme)).toBe(88);
  expect(parseSmart("SMART Disabled. Use option -s\n")).toEqual({ health: "SMART Disabled" });
  expect(lifeLeft({})).toBeUndefined();
});
