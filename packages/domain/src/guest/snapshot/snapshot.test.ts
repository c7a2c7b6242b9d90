import { describe, expect, it } from "vitest";
import { messageOf } from "@gpve/contracts/errors.ts";
import { checkLock, setLock } from "../guest-lock.ts";
import { createSnapshot, deleteSnapshot } from "./snapshot-run.ts";
import {
  commitSnapshot,
  finishSnapshotDelete,
  markSnapshotDeleting,
  prepareSnapshot,
  removeSnapshotVolume,
  snapshotRows,
} from "./snapshot.ts";
import { beginSuspend } from "../../vm/snapshot/suspend.ts";
import { vmSnapshotRules } from "../../vm/snapshot/vm-snapshot-rules.ts";
import { MemoryHost, twoDisks as base } from "./testing/memory-snapshots.ts";
import type { VmConfig } from "../../vm/config/vm-config.ts";

describe("taking a snapshot", () => {
  it("quiesces the guest, snapshots each disk and becomes the parent", async () => {
    const host = new MemoryHost(base);
    await createSnapshot(host, { name: "s1", description: "before" });
    expect(host.log).toEqual([
      "activate l1+l2",
      "freeze",
      "begin",
      "snap scsi0",
      "snap virtio1",
      "end",
      "thaw",
    ]);
    expect(host.config.values).toEqual({ ...base.values, parent: "s1" });
    expect(host.config.snapshots["s1"]).toEqual({
      cores: "2",
      ide2: "none,media=cdrom",
      scsi0: "l1:x,size=1G",
      virtio1: "l2:y",
      vmgenid: base.values["vmgenid"],
      snaptime: "1000",
      description: "before",
    });
  });

  it("keeps the RAM of a running guest without freezing it", async () => {
    const host = new MemoryHost(base);
    await createSnapshot(host, { name: "s1", withState: true });
    expect(host.log).not.toContain("freeze");
    expect(host.config.snapshots["s1"]).toMatchObject({ vmstate: "l1:state", runningmachine: "pc-q35-9.2" });
    const stopped = new MemoryHost(base);
    stopped.running = false;
    await createSnapshot(stopped, { name: "s1", withState: true });
    expect(stopped.log).toEqual(["activate l1+l2", "snap scsi0", "snap virtio1"]);
  });

  it("leaves the VM as it was when a volume fails", async () => {
    const host = new MemoryHost(base);
    host.failing.add("snap virtio1").add("freeze").add("unsnap scsi0");
    await expect(createSnapshot(host, { name: "s1", withState: false })).rejects.toThrow(
      "snap virtio1 failed",
    );
    expect(host.log).toContain("warn unsnap scsi0 failed");
    expect(host.log).not.toContain("unsnap virtio1");
    expect(host.config).toEqual(base);
  });

  it("frees the room for the RAM when the configuration cannot be written", async () => {
    const host = new MemoryHost(base);
    host.failing.add("update");
    await expect(createSnapshot(host, { name: "s1", withState: true })).rejects.toThrow("update failed");
    expect(host.log).toEqual(["allocate", "free l1:state"]);
  });

  it("refuses templates, locked VMs, taken names and storage that cannot", async () => {
    const tried = async (values: Record<string, string>, failing?: string) => {
      const host = new MemoryHost({ ...base, values: { ...base.values, ...values }, snapshots: { old: {} } });
      if (failing !== undefined) host.failing.add(failing);
      return createSnapshot(host, { name: failing === undefined ? "old" : "s1" }).catch(messageOf);
    };
    expect(await tried({ template: "1" })).toBe("you can't take a snapshot if it's a template");
    expect(await tried({ lock: "backup" })).toBe("VM is locked (backup)");
    expect(await tried({})).toBe("snapshot name 'old' already used");
    expect(await tried({}, "feature")).toBe("snapshot feature is not available");
  });

  it("saves no RAM beside devices whose state cannot be saved", async () => {
    const message = "Cannot live-migrate, snapshot (with RAM), or hibernate a VM with: amd-sev, virtiofs";
    const values = { ...base.values, "amd-sev": "type=std", virtiofs0: "dirid=d" };
    const host = new MemoryHost({ ...base, values });
    await expect(createSnapshot(host, { name: "s1", withState: true })).rejects.toThrow(message);
    expect(host.log).toEqual([]);
    await createSnapshot(host, { name: "s1" });
    expect(host.config.values["parent"]).toBe("s1");
    const state = { vmstate: "l1:s", runningmachine: "pc" };
    expect(() => beginSuspend({ ...base, values }, state, false)).toThrow(message);
  });

  it("does not close a circle over a leftover parent reference", () => {
    const config = { ...base, snapshots: { b1: { parent: "a1" } } };
    expect(prepareSnapshot(config, { name: "a1", snaptime: 1 }).snapshots["b1"]).toEqual({});
  });

  it("commits only what it prepared", () => {
    expect(() => commitSnapshot(base, "s1")).toThrow("missing snapshot lock");
    const locked = setLock(base, "snapshot");
    expect(() => commitSnapshot(locked, "s1")).toThrow("snapshot 's1' does not exist");
    expect(() => commitSnapshot({ ...locked, snapshots: { s1: {} } }, "s1")).toThrow("wrong snapshot state");
    expect(() => commitSnapshot(locked, "constructor")).toThrow("does not exist");
  });
});

describe("deleting a snapshot", () => {
  const tree: VmConfig = {
    ...base,
    values: { ...base.values, parent: "b1" },
    snapshots: {
      a1: { scsi0: "l1:x" },
      b1: { parent: "a1", scsi0: "l1:x", ide2: "none,media=cdrom", vmstate: "l1:state" },
      c1: { parent: "b1" },
    },
  };

  it("hangs the children on its parent", async () => {
    const host = new MemoryHost(tree);
    await deleteSnapshot(host, "b1");
    expect(host.log).toEqual(["activate l1", "free l1:state", "unsnap scsi0"]);
    expect(host.config.snapshots).toEqual({ a1: { scsi0: "l1:x" }, c1: { parent: "a1" } });
    expect(host.config.values["parent"]).toBe("a1");
    expect(host.config.values).not.toHaveProperty("lock");
    await deleteSnapshot(host, "a1");
    expect(host.config.snapshots).toEqual({ c1: {} });
    expect(host.config.values).not.toHaveProperty("parent");
  });

  it("stays locked and marked when a volume fails, unless forced", async () => {
    const host = new MemoryHost(tree);
    host.failing.add("unsnap scsi0");
    await expect(deleteSnapshot(host, "b1")).rejects.toThrow("unsnap scsi0 failed");
    expect(host.config.values["lock"]).toBe("snapshot-delete");
    expect(host.config.snapshots["b1"]).toMatchObject({ snapstate: "delete", scsi0: "l1:x" });
    expect(host.config.snapshots["b1"]).not.toHaveProperty("vmstate");
    const forced = new MemoryHost(tree);
    forced.failing.add("unsnap scsi0").add("free l1:state");
    await deleteSnapshot(forced, "b1", { force: true });
    expect(forced.config.snapshots).not.toHaveProperty("b1");
  });

  it("keeps as unused what only other snapshots still have, not what is or will be attached", () => {
    const locked = setLock({ ...tree, pending: { scsi5: "l1:later" } }, "snapshot-delete");
    const done = finishSnapshotDelete(vmSnapshotRules, locked, "b1", {
      unused: ["l1:x", "l1:gone", "l1:later", "l1:old"],
      expected: "snapshot-delete",
    });
    expect(done.values).toMatchObject({ unused0: "l1:old", unused1: "l1:gone" });
    expect(done.values).not.toHaveProperty("unused2");
    const elsewhere = setLock({ ...tree, values: {}, snapshots: { ...tree.snapshots } }, "snapshot-delete");
    expect(
      finishSnapshotDelete(vmSnapshotRules, elsewhere, "b1", {
        unused: ["l1:x"],
        expected: "snapshot-delete",
      }).values,
    ).toEqual({ unused0: "l1:x" });
  });

  it("keeps to its lock", () => {
    const expected = "snapshot-delete";
    const message = "encountered invalid lock, expected 'snapshot-delete'";
    expect(() => markSnapshotDeleting(tree, "b1", expected)).toThrow(message);
    expect(() => removeSnapshotVolume(vmSnapshotRules, tree, "b1", "scsi0", expected)).toThrow(message);
    expect(() => finishSnapshotDelete(vmSnapshotRules, tree, "b1", { unused: [], expected })).toThrow(
      message,
    );
    const locked = setLock(tree, expected);
    const template = { ...locked, values: { ...locked.values, template: "1" } };
    expect(() => markSnapshotDeleting(template, "b1", expected)).toThrow("if vm is a template");
    expect(removeSnapshotVolume(vmSnapshotRules, locked, "b1", "ide2", expected)).toBe(locked);
    expect(removeSnapshotVolume(vmSnapshotRules, locked, "b1", "sata5", expected)).toBe(locked);
    expect(
      removeSnapshotVolume(vmSnapshotRules, locked, "b1", "scsi0", expected).snapshots["b1"],
    ).toMatchObject({
      unused0: "l1:x",
    });
  });
});

describe("what others see", () => {
  it("lists snapshots and, last, the present state", () => {
    const config = {
      ...base,
      values: { ...base.values, parent: "s1" },
      snapshots: {
        s1: { snaptime: "7", description: "d", vmstate: "l1:s", parent: "s0", snapstate: "delete" },
        s2: {},
      },
    };
    expect(snapshotRows(config, true)).toEqual([
      { name: "s1", description: "d", vmstate: true, snaptime: 7, parent: "s0", snapstate: "delete" },
      { name: "s2", description: "", vmstate: false, snaptime: 0 },
      { name: "current", digest: "d1", running: true, description: "You are here!", parent: "s1" },
    ]);
    expect(snapshotRows(base, false).at(-1)).not.toHaveProperty("parent");
  });

  it("answers a locked VM with PVE's text and status", () => {
    const locked = setLock(base, "migrate");
    const busy = { code: "resource.busy", message: "VM is locked (migrate)", pveStatus: 500 };
    expect(() => checkLock(locked)).toThrow(expect.objectContaining(busy));
  });
});
