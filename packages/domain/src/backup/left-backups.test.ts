import { expect, it } from "vitest";
import { leftBackupCollection, leftBackupsId, seenBackupCollection, stillLeft } from "./left-backups.ts";

const left = { vmid: 100, type: "qemu", node: "n1", pool: "web", until: 1000, backups: 3 } as const;

it("counts what was left until its node says that it is less, and never more", () => {
  expect(stillLeft(left, undefined)).toBe(3);
  expect(stillLeft(left, { backups: 1 })).toBe(1);
  expect(stillLeft(left, { backups: 9 })).toBe(3);
});

it("tells guests that had the same id one after the other apart", () => {
  expect(leftBackupsId(left)).toBe("qemu-100-1000");
  expect(leftBackupsId({ ...left, until: 2000 })).not.toBe(leftBackupsId(left));
});

it("reads what it wrote, and nothing else", () => {
  expect(leftBackupCollection.decode({ ...left })).toEqual(left);
  for (const key of Object.keys(left))
    expect(() => leftBackupCollection.decode({ ...left, [key]: null })).toThrow("a shape");
  const { decode, prefix } = seenBackupCollection("n1");
  expect(prefix).toBe("/gpve/node-data/n1/left-backups/");
  expect(decode({ backups: 2 })).toEqual({ backups: 2 });
  for (const bad of [undefined, null, {}, { backups: -1 }, { backups: "2" }, { backups: 0.5 }])
    expect(() => decode(bad)).toThrow("no count");
});
