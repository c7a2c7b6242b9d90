import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { backupBaseName, logNameOf, parseBackupName } from "./backup-name.ts";

describe("names of backup archives", () => {
  it("reads back every name this software gives", () => {
    const two = (min: number, max: number) => fc.integer({ min, max });
    const time = fc.record({
      year: two(1970, 2999),
      month: two(1, 12),
      day: two(1, 31),
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

  it.each(["x.txt", ".vma", "a/b.vma", "vzdump-qemu-100-2024_01_01-00_00_00.vma.zst.notes"])(
    "does not take %s for an archive",
    (name) => {
      expect(parseBackupName(name)).toBeUndefined();
    },
  );
});
