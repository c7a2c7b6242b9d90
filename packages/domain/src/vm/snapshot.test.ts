import { describe, expect, it } from "vitest";
import { AppError, messageOf } from "@gpve/contracts/errors.ts";
import { checkLock, setLock } from "./lock.ts";
import { createSnapshot, deleteSnapshot, rollbackSnapshot, type SnapshotHost } from "./snapshot-run.ts";
import {
  beginRollback,
  commitSnapshot,
  finishRollback,
  finishSnapshotDelete,
  markSnapshotDeleting,
  prepareSnapshot,
  removeSnapshotDrive,
  snapshotRows,
  type StartFromState,
} from "./snapshot.ts";
import { beginSuspend } from "./suspend.ts";
import { emptyVmConfig, type VmConfig } from "./vm-config.ts";

const UUID = "11111111-1111-4111-8111-111111111111";
const base: VmConfig = {
  ...emptyVmConfig,
  digest: "d1",
  values: {
    cores: "2",
    description: "mine",
    ide2: "none,media=cdrom",
    scsi0: "l1:x,size=1G",
    unused0: "l1:old",
    virtio1: "l2:y",
    vmgenid: "21a7e7bc-3cd2-4232-a009-a41f4ee992ae",
  },
  pending: { cores: "4" },
};

/** Volumes and guest in memory; a step listed in `failing` throws. */
class MemoryHost implements SnapshotHost {
  readonly vmid = 100;
  config: VmConfig;
  running = true;
  readonly failing = new Set<string>();
  readonly log: string[] = [];
  started: StartFromState | undefined;

  constructor(config: VmConfig) {
    this.config = config;
  }
  #do(step: string): Promise<void> {
    this.log.push(step);
    return this.failing.has(step) ? Promise.reject(new Error(`${step} failed`)) : Promise.resolve();
  }
  load = () => Promise.resolve(this.config);
  update(change: (config: VmConfig) => VmConfig): Promise<VmConfig> {
    if (this.failing.has("update")) return Promise.reject(new Error("update failed"));
    this.config = change(this.config);
    return Promise.resolve(this.config);
  }
  now = () => 1000;
  newUuid = () => UUID;
  warn = (message: string) => void this.log.push(`warn ${message}`);
  isRunning = () => Promise.resolve(this.running);
  hasSnapshotFeature = () => Promise.resolve(!this.failing.has("feature"));
  activateStorages = (storages: readonly string[]) => this.#do(`activate ${storages.join("+")}`);
  async allocateState() {
    await this.#do("allocate");
    return {
      vmstate: "l1:state",
      runningmachine: "pc-q35-9.2",
      runningcpu: "host,+aes",
      "running-nets-host-mtu": "net0=1500",
    };
  }
  freeVolume = (volid: string) => this.#do(`free ${volid}`);
  wantsFreeze = () => Promise.resolve(true);
  freeze = () => this.#do("freeze");
  thaw = () => this.#do("thaw");
  beginState = () => this.#do("begin");
  endState = () => this.#do("end");
  snapshotVolume = (key: string) => this.#do(`snap ${key}`);
  deleteVolumeSnapshot = (key: string) => this.#do(`unsnap ${key}`);
  checkVolumeRollback = (key: string) => this.#do(`check ${key}`);
  rollbackVolume = (key: string) => this.#do(`rollback ${key}`);
  async stop() {
    await this.#do("stop");
    this.running = false;
  }
  start(state: StartFromState) {
    this.started = state;
    return this.#do("start");
  }
}

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
    const done = finishSnapshotDelete(locked, "b1", {
      unused: ["l1:x", "l1:gone", "l1:later", "l1:old"],
      expected: "snapshot-delete",
    });
    expect(done.values).toMatchObject({ unused0: "l1:old", unused1: "l1:gone" });
    expect(done.values).not.toHaveProperty("unused2");
    const elsewhere = setLock({ ...tree, values: {}, snapshots: { ...tree.snapshots } }, "snapshot-delete");
    expect(
      finishSnapshotDelete(elsewhere, "b1", { unused: ["l1:x"], expected: "snapshot-delete" }).values,
    ).toEqual({ unused0: "l1:x" });
  });

  it("keeps to its lock", () => {
    const expected = "snapshot-delete";
    const message = "encountered invalid lock, expected 'snapshot-delete'";
    expect(() => markSnapshotDeleting(tree, "b1", expected)).toThrow(message);
    expect(() => removeSnapshotDrive(tree, "b1", "scsi0", expected)).toThrow(message);
    expect(() => finishSnapshotDelete(tree, "b1", { unused: [], expected })).toThrow(message);
    const locked = setLock(tree, expected);
    const template = { ...locked, values: { ...locked.values, template: "1" } };
    expect(() => markSnapshotDeleting(template, "b1", expected)).toThrow("if vm is a template");
    expect(removeSnapshotDrive(locked, "b1", "ide2", expected)).toBe(locked);
    expect(removeSnapshotDrive(locked, "b1", "sata5", expected)).toBe(locked);
    expect(removeSnapshotDrive(locked, "b1", "scsi0", expected).snapshots["b1"]).toMatchObject({
      unused0: "l1:x",
    });
  });
});

describe("rolling back", () => {
  const withState: VmConfig = {
    ...base,
    snapshots: {
      s1: {
        cores: "1",
        scsi0: "l1:x,size=1G",
        machine: "q35",
        vmgenid: "21a7e7bc-3cd2-4232-a009-a41f4ee992ae",
        vmstate: "l1:state",
        runningmachine: "pc-q35-9.2",
        runningcpu: "host,+aes",
        "running-nets-host-mtu": "net0=1500",
        snaptime: "1",
        description: "then",
      },
    },
  };

  it("takes the snapshot's configuration and continues from its RAM", async () => {
    const host = new MemoryHost(withState);
    await rollbackSnapshot(host, "s1");
    expect(host.log).toEqual(["activate l1", "check scsi0", "stop", "rollback scsi0", "start"]);
    expect(host.config.values).toEqual({
      cores: "1",
      description: "mine",
      machine: "q35",
      parent: "s1",
      scsi0: "l1:x,size=1G",
      unused0: "l1:old",
      unused1: "l2:y",
      vmgenid: UUID,
    });
    expect(host.config.pending).toEqual({});
    expect(host.started).toEqual({
      vmstate: "l1:state",
      machine: "pc-q35-9.2",
      cpu: "host,+aes",
      netsHostMtu: "net0=1500",
    });
  });

  it("guesses the machine of snapshots that do not say which ran", () => {
    const rolled = (snapshot: Record<string, string>, machine?: string) =>
      finishRollback(
        setLock(
          { ...emptyVmConfig, values: machine === undefined ? {} : { machine }, snapshots: { s1: snapshot } },
          "rollback",
        ),
        "s1",
        { newUuid: () => UUID },
      );
    expect(rolled({ vmstate: "l1:s", machine: "q35" })).toEqual({
      config: expect.objectContaining({ values: { parent: "s1" } }),
      start: { vmstate: "l1:s", machine: "q35" },
    });
    expect(rolled({ vmstate: "l1:s", machine: "q35" }, "pc").config.values).toEqual({
      parent: "s1",
      machine: "q35",
    });
    expect(rolled({ vmstate: "l1:s" }).start).toEqual({ vmstate: "l1:s", machine: "pc-i440fx-1.4" });
    expect(rolled({ vmgenid: "0" })).toMatchObject({
      config: { values: { vmgenid: "0" } },
      start: undefined,
    });
  });

  it("removes a cloud-init drive that no snapshot has, and only that", async () => {
    const drives = { ide2: "l1:vm-100-cloudinit,media=cdrom", sata0: "l1:iso,media=cdrom", sata1: "l1:y" };
    const host = new MemoryHost({
      ...base,
      values: drives,
      special: { cloudinit: { name: "x" } },
      snapshots: { s1: { sata5: "l1:y,media=cdrom" } },
    });
    await rollbackSnapshot(host, "s1");
    expect(host.log.filter((step) => step.startsWith("free"))).toEqual(["free l1:vm-100-cloudinit"]);
    // A disk that the snapshot has only as a disc is not in it.
    expect(host.config.values).toEqual({ parent: "s1", sata5: "l1:y,media=cdrom", unused0: "l1:y" });
    expect(host.config.special).toEqual({});
    const shared = new MemoryHost({ ...base, values: drives, snapshots: { s1: {}, s2: drives } });
    await rollbackSnapshot(shared, "s1");
    expect(shared.log.filter((step) => step.startsWith("free"))).toEqual([]);
  });

  it("keeps what a snapshot without a machine says of the CPU", () => {
    const config = setLock({ ...emptyVmConfig, snapshots: { s1: { runningcpu: "host" } } }, "rollback");
    expect(finishRollback(config, "s1", { newUuid: () => UUID }).config.values).toEqual({
      parent: "s1",
      runningcpu: "host",
    });
  });

  it("refuses what would not come back whole", async () => {
    const template = new MemoryHost({ ...withState, values: { ...base.values, template: "1" } });
    await expect(rollbackSnapshot(template, "none")).rejects.toThrow(
      "you can't rollback if vm is a template",
    );
    expect(template.log).toEqual([]);
    const restarted = new MemoryHost(withState);
    restarted.rollbackVolume = () => {
      restarted.running = true;
      return Promise.resolve();
    };
    await expect(rollbackSnapshot(restarted, "s1")).rejects.toThrow("vm is running");
    expect(restarted.config.values["lock"]).toBe("rollback");
    const stuck = new MemoryHost(withState);
    stuck.stop = () => Promise.resolve();
    await expect(rollbackSnapshot(stuck, "s1")).rejects.toThrow("unable to rollback vm 100: vm is running");
    expect(stuck.config).toBe(withState);
    const half = { ...withState, snapshots: { s1: { snapstate: "prepare" } } };
    expect(() => beginRollback(half, "s1")).toThrow(
      "unable to rollback to incomplete snapshot (snapstate = prepare)",
    );
    expect(() => finishRollback(withState, "s1", { newUuid: () => UUID })).toThrow("got wrong lock");
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
    expect(() => checkLock(locked)).toThrow(AppError);
    try {
      checkLock(locked);
    } catch (error) {
      expect(error).toMatchObject({
        code: "resource.busy",
        message: "VM is locked (migrate)",
        pveStatus: 500,
      });
    }
  });
});
