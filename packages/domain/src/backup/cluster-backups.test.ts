import { expect, test } from "vitest";
import {
  backupPlace,
  clusterBackupCollection,
  clusterBackupsId,
  clusterBackupTotals,
} from "./cluster-backups.ts";

test("what several nodes see of one storage counts once, what each has counts each", () => {
  const demo = { name: "demo", tenant: "shop/web" };
  const seen = [
    { ...demo, counts: { [backupPlace("nas", true, "n1")]: 3, [backupPlace("local", false, "n1")]: 1 } },
    { ...demo, counts: { [backupPlace("nas", true, "n2")]: 2, [backupPlace("local", false, "n2")]: 1 } },
    { name: "demo", tenant: "other", counts: {} },
  ];
  expect(clusterBackupTotals(seen)).toEqual([
    { ...demo, backups: 5 },
    { name: "demo", tenant: "other", backups: 0 },
  ]);
  expect(clusterBackupsId(demo)).toBe("demo_shop=web");
});

test("what is no count is not taken for one", () => {
  const { decode, prefix } = clusterBackupCollection("n1");
  const row = { name: "demo", tenant: "shop", counts: { local: 2 } };
  expect([prefix, decode(row)]).toEqual(["/gpve/node-data/n1/cluster-backups/", row]);
  for (const broken of [null, { ...row, name: 1 }, { ...row, counts: { local: -1 } }, { ...row, counts: 7 }])
    expect(() => decode(broken)).toThrow("has a shape this version does not know");
});
