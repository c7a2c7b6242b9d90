import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { backupBaseName, logNameOf, namesGuest, parseBackupName } from "./backup-name.ts";

describe("names of backup archives", () => {
  it("reads back every name this software gives", () => {
    const two = (min: number, max: number) => fc.integer({ min, max });
    const time = fc.record({
      year: two(1970, 2999),
      month: two(1, 12),
      day: two(1, 28),
      hour: two(0, 23),
      minute: two(0, 59),
      second: two(0, 59),
    });
    const format = fc.constantFrom(
      "vma",
      "vma.zst",
      "vma.gz",
      "vma.lzo",
      "tar",
      "tar.zst",
      "tgz",
      "gpvi",
      "gpvi",
    );
    const vmid = fc.integer({ min: 100, max: 999_999_999 });
    fc.assert(
      fc.property(fc.constantFrom("qemu", "lxc"), vmid, time, format, (type, id, at, ext) => {
        const base = backupBaseName(type as "qemu" | "lxc", id, at);
        expect(parseBackupName(`${base}.${ext}`)).toMatchObject({
          type,
          vmid: id,
          time: at,
          format: ext,
          standard: true,
        });
        expect(logNameOf(`${base}.${ext}`)).toBe(`${base}.log`);
      }),
    );
  });

  it("knows archives that people renamed, and their guests where the name tells", () => {
    expect(parseBackupName("vzdump-qemu-100-manual.vma.zst")).toMatchObject({
      type: "qemu",
      vmid: 100,
      standard: false,
      container: "vma",
      compression: "zst",
    });
    expect(parseBackupName("mine.tar")).toMatchObject({ type: "unknown", vmid: undefined, standard: false });
    expect(parseBackupName("old.tgz")).toMatchObject({ container: "tar", compression: "gz" });
    expect(logNameOf("mine.tar")).toBeUndefined();
  });

  it.each([
    "vzdump-qemu-100-2024_01_31-23_59_59.copy.vma.zst",
    "vzdump-qemu-100-2024_01_31-23_59_59-copy.vma",
    "vzdump-qemu-99-2024_01_31-23_59_59.vma",
    "vzdump-qemu-100-2024_01_31-23_59.vma",
    "vzdump-qemu-1000000000-2024_01_31-23_59_59.vma",
    "Vzdump-qemu-100-2024_01_31-23_59_59.vma",
  ])("takes %s for renamed, so that neither pruning nor removing touches what belongs to others", (name) => {
    expect(parseBackupName(name)?.standard).toBe(false);
    expect(logNameOf(name)).toBeUndefined();
  });

  it.each([
    ["2024_02_30-00_00_00", false],
    ["2024_02_29-00_00_00", true],
    ["2023_02_29-00_00_00", false],
    ["2024_13_01-00_00_00", false],
    ["2024_00_01-00_00_00", false],
    ["2024_01_00-00_00_00", false],
    ["2024_01_01-24_00_00", false],
    ["2024_01_01-23_60_00", false],
    ["2024_01_01-23_59_60", false],
    ["2024_01_01-23_59_59", true],
  ])("believes a name only when its time %s exists", (time, standard) => {
    expect(parseBackupName(`vzdump-lxc-100-${time}.tar`)).toMatchObject({
      standard,
      vmid: 100,
      type: standard ? "lxc" : "unknown",
    });
  });

  it("finds a guest's number wherever a name has it", () => {
    expect(namesGuest("vzdump-qemu-100-2024_01_31-23_59_59.vma", 100)).toBe(true);
    expect(namesGuest("copy-of-100-mine.vma", 100)).toBe(true);
    expect(namesGuest("vzdump-qemu-1001-2024_01_31-23_59_59.vma", 100)).toBe(false);
    expect(namesGuest("-100-x.vma", 100)).toBe(false);
  });

  it.each(["x.txt", ".vma", "a/b.vma", "vzdump-qemu-100-2024_01_01-00_00_00.vma.zst.notes"])(
    "does not take %s for an archive",
    (name) => {
      expect(parseBackupName(name)).toBeUndefined();
    },
  );
});
