import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { AppError } from "@gpve/contracts/errors.ts";
import { expect, test } from "vitest";
import { madeUpExec } from "../../testing/made-up-host.ts";
import { VolumeManagers } from "./volume-managers.ts";

test("lists volume groups with their disks, and thin pools with what is used of them", async () => {
  const vg = {
    vg_name: "pve",
    vg_size: "1000",
    vg_free: "400",
    lv_count: "3",
    pv_size: "500",
    pv_free: "200",
  };
  const volumes = new VolumeManagers({
    exec: madeUpExec({
      vgs: JSON.stringify({
        report: [
          {
            vg: [
              { ...vg, vg_name: "z", pv_name: "/dev/sdz" },
              { ...vg, pv_name: "/dev/sda" },
              { ...vg, pv_name: "/dev/sdb" },
            ],
          },
        ],
      }),
      lvs: JSON.stringify({
        report: [
          {
            lv: [
              {
                vg_name: "pve",
                lv_name: "data",
                lv_size: "1000",
                lv_metadata_size: "200",
                data_percent: "12.57",
                metadata_percent: "1.00",
              },
            ],
          },
        ],
      }),
    }),
  });
  const disk = { leaf: true, size: 500, free: 200 };
  const group = { leaf: false, size: 1000, free: 400, lvcount: 3 };
  expect(await volumes.volumeGroups()).toEqual({
    leaf: false,
    children: [
      {
        ...group,
        name: "pve",
        children: [
          { ...disk, name: "/dev/sda" },
          { ...disk, name: "/dev/sdb" },
        ],
      },
      { ...group, name: "z", children: [{ ...disk, name: "/dev/sdz" }] },
    ],
  });
  expect(await volumes.thinPools()).toEqual([
    { vg: "pve", lv: "data", lv_size: 1000, used: 125, metadata_size: 200, metadata_used: 2 },
  ]);
});

test("a host without LVM and ZFS has none of it; what fails, fails", async () => {
  const bare = new VolumeManagers({ exec: madeUpExec({}), units: "/nowhere/at/all" });
  expect(await bare.volumeGroups()).toEqual({ leaf: false, children: [] });
  expect(await bare.thinPools()).toEqual([]);
  expect(bare.directories()).toEqual([]);
  expect(await bare.zpools()).toEqual([]);
  await expect(bare.zpool("tank")).rejects.toThrow("zfsutils-linux not installed");
  const broken = new VolumeManagers({
    exec: () => Promise.reject(new AppError("internal.error", "vgs failed with exit code 5")),
  });
  await expect(broken.volumeGroups()).rejects.toThrow("exit code 5");
  await expect(broken.zpools()).rejects.toThrow("exit code 5");
});

test("reads pools of ZFS and the tree of one", async () => {
  const volumes = new VolumeManagers({
    exec: madeUpExec({
      "zpool list": "tank\t1000\t300\t700\t5\t1.00\tONLINE\naway\t-\t-\t-\t-\t-\tUNAVAIL\n",
      "zpool status": [
        "  pool: tank",
        " state: DEGRADED",
        "status: One or more devices are gone.",
        "\tMore of it.",
        "config:",
        "",
        "\tNAME          STATE     READ WRITE CKSUM",
        "\ttank          DEGRADED     0     0     0",
        "\t  mirror-0    DEGRADED     0     0     0",
        "\t    /dev/sda  ONLINE       0     0     1",
        "\t    /dev/sdb  UNAVAIL      0     0     0  was /dev/sdb1",
        "\tlogs",
        "\t  /dev/sdc    ONLINE       0     0     0",
        "",
        "errors: No known data errors",
        "",
      ].join("\n"),
    }),
  });
  expect(await volumes.zpools()).toEqual([
    { name: "tank", size: 1000, alloc: 300, free: 700, frag: 5, dedup: 1, health: "ONLINE" },
    { name: "away", size: 0, alloc: 0, free: 0, frag: 0, dedup: 0, health: "UNAVAIL" },
  ]);
  const none = { read: 0, write: 0, cksum: 0 };
  expect(await volumes.zpool("tank")).toEqual({
    name: "tank",
    state: "DEGRADED",
    status: "One or more devices are gone. More of it.",
    errors: "No known data errors",
    leaf: false,
    children: [
      {
        name: "tank",
        state: "DEGRADED",
        msg: "",
        leaf: false,
        ...none,
        children: [
          {
            name: "mirror-0",
            state: "DEGRADED",
            msg: "",
            leaf: false,
            ...none,
            children: [
              { name: "/dev/sda", state: "ONLINE", msg: "", leaf: true, ...none, cksum: 1 },
              { name: "/dev/sdb", state: "UNAVAIL", msg: "was /dev/sdb1", leaf: true, ...none },
            ],
          },
        ],
      },
      {
        name: "logs",
        msg: "",
        leaf: false,
        children: [{ name: "/dev/sdc", state: "ONLINE", msg: "", leaf: true, ...none }],
      },
    ],
  });
});

test("lists disks that are mounted as directories by a unit of their own", () => {
  const units = mkdtempSync(join(tmpdir(), "gpve-units-"));
  try {
    const unit =
      "[Install]\nWhat=no\n\n[Mount]\nOptions=defaults\nType=ext4\nWhat=/dev/disk/by-uuid/1\n\n[Unit]\nType=no\n";
    writeFileSync(join(units, "mnt-pve-big\\x2ddisk.mount"), unit);
    writeFileSync(join(units, "mnt-other.mount"), unit);
    expect(new VolumeManagers({ exec: madeUpExec({}), units }).directories()).toEqual([
      {
        unitfile: join(units, "mnt-pve-big\\x2ddisk.mount"),
        path: "/mnt/pve/big-disk",
        device: "/dev/disk/by-uuid/1",
        type: "ext4",
        options: "defaults",
      },
    ]);
  } finally {
    rmSync(units, { recursive: true });
  }
});
