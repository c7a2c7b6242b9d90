import { expect, test } from "vitest";
import {
  bitmapOf,
  isOurBitmap,
  MAX_CHAIN,
  planBackup,
  type BackupChain,
  type DiskNow,
} from "./backup-chain.ts";

const uuid = "0".repeat(32);
const chain: BackupChain = {
  uuid,
  archive: "vzdump-qemu-100-2026_01_01-00_00_00.vma.zst",
  length: 1,
  disks: {
    scsi0: { volid: "local:100/a.qcow2", size: 100 },
    efidisk0: { volid: "local:100/e.raw", size: 1 },
  },
};
const good = { name: bitmapOf(uuid), inconsistent: false, recording: true };
const scsi0: DiskNow = {
  key: "scsi0",
  volid: "local:100/a.qcow2",
  size: 100,
  format: "qcow2",
  bitmaps: [good],
};
const reason = (state: Parameters<typeof planBackup>[0], ...disks: DiskNow[]): string => {
  const plan = planBackup(state, disks);
  return plan.kind === "full" ? plan.reason : "incremental";
};

test("is incremental where every disk of the parent has its bitmap", () => {
  const efi: DiskNow = { key: "efidisk0", volid: "local:100/e.raw", size: 1, format: "raw", bitmaps: [] };
  const added: DiskNow = { ...scsi0, key: "scsi1", volid: "local:100/b.raw", format: "raw", bitmaps: [] };
  const plan = planBackup(chain, [scsi0, efi, added]);
  expect(plan).toMatchObject({ kind: "incremental", parent: chain });
  expect(plan.kind === "incremental" && [...plan.whole]).toEqual(["efidisk0", "scsi1"]);
  expect(planBackup(chain, [{ ...scsi0, size: 200 }]).kind).toBe("incremental");
});

test("is full where anything is in doubt, and says what", () => {
  expect(reason(undefined, scsi0)).toContain("no earlier backup");
  expect(reason({ dropped: "rolled back" }, scsi0)).toBe("rolled back");
  expect(reason({ ...chain, length: MAX_CHAIN }, scsi0)).toContain(`${MAX_CHAIN} backups already`);
  expect(reason(chain)).toContain("no disk");
  expect(reason(chain, { ...scsi0, volid: "local:100/other.qcow2" })).toContain("no disk");
  expect(reason(chain, { ...scsi0, size: 99 })).toContain("smaller");
  expect(reason(chain, { ...scsi0, bitmaps: [{ ...good, name: "other" }] })).toContain(
    "no dirty bitmap of the last backup",
  );
  expect(reason(chain, { ...scsi0, format: "raw", bitmaps: [] })).toContain("the same QEMU process");
  expect(reason(chain, { ...scsi0, bitmaps: [{ ...good, inconsistent: true }] })).toContain("inconsistent");
  expect(reason(chain, { ...scsi0, bitmaps: [{ ...good, recording: false }] })).toContain("cut off");
  const untracked = { ...chain, disks: { scsi0: { ...chain.disks["scsi0"], untracked: "too old" } } };
  expect(reason(untracked as BackupChain, { ...scsi0, bitmaps: [] })).toBe("disk 'scsi0': too old");
});

test("knows its own bitmaps", () => {
  expect(isOurBitmap(bitmapOf(uuid))).toBe(true);
  expect(isOurBitmap("pbs-incremental-dirty-bitmap")).toBe(false);
});
