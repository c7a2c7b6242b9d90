import { describe, expect, test } from "vitest";
import { namesGuest, parseBackupName } from "../../storage/backup-name.ts";
import { clusterArchiveName, parseClusterArchiveName } from "./archive-name.ts";

const time = { year: 2026, month: 1, day: 2, hour: 3, minute: 4, second: 5 };

describe("names of archives of virtual clusters", () => {
  test.each([
    ["demo", "default", "vzdump-vc-demo_default-2026_01_02-03_04_05.tar.gz"],
    ["a-100-b", "shop/team_1", "vzdump-vc-a-100-b_shop=team_1-2026_01_02-03_04_05.tar.gz"],
  ])("%s of %s is found again in its name", (name, tenant, fileName) => {
    expect(clusterArchiveName({ name, tenant, time })).toBe(fileName);
    expect(parseClusterArchiveName(fileName)).toEqual({ name, tenant, time });
  });

  test("are no guest's, whatever numbers are in them", () => {
    const fileName = clusterArchiveName({ name: "a-100-b", tenant: "x-200-y", time });
    expect(parseBackupName(fileName)).toMatchObject({ type: "unknown", standard: false, container: "tar" });
    expect(parseBackupName(fileName)?.vmid).toBeUndefined();
    expect([namesGuest(fileName, 100), namesGuest(fileName, 200)]).toEqual([false, false]);
  });

  test("others are none", () => {
    for (const fileName of [
      "vzdump-qemu-100-2026_01_02-03_04_05.vma.zst",
      "vzdump-vc-demo-2026_01_02-03_04_05.tar.gz",
      "vzdump-vc-demo_default-2026_01_02-03_04_05.tar.gz.notes",
    ])
      expect(parseClusterArchiveName(fileName)).toBeUndefined();
  });
});
