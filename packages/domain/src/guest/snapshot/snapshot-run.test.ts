import { expect, describe, it } from "vitest";
import { setLock } from "../guest-lock.ts";
import { rollbackSnapshot } from "./snapshot-run.ts";
import { beginRollback, finishRollback } from "./snapshot.ts";
import { vmSnapshotRules } from "../../vm/snapshot/vm-snapshot-rules.ts";
import { MemoryHost, twoDisks as base, UUID } from "./testing/memory-snapshots.ts";
import { emptyVmConfig, type VmConfig } from "../../vm/config/vm-config.ts";

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
        vmSnapshotRules,
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
    const named: unknown[] = [];
    const free = host.freeVolume;
    host.freeVolume = (volid) => {
      named.push(host.config.values["ide2"]);
      return free(volid);
    };
    await rollbackSnapshot(host, "s1");
    expect(host.log.filter((step) => step.startsWith("free"))).toEqual(["free l1:vm-100-cloudinit"]);
    // Cut off here, a second try would still find it.
    expect(named).toEqual([drives.ide2]);
    // A disk that the snapshot has only as a disc is not in it.
    expect(host.config.values).toEqual({ parent: "s1", sata5: "l1:y,media=cdrom", unused0: "l1:y" });
    expect(host.config.special).toEqual({});
    const shared = new MemoryHost({ ...base, values: drives, snapshots: { s1: {}, s2: drives } });
    await rollbackSnapshot(shared, "s1");
    expect(shared.log.filter((step) => step.startsWith("free"))).toEqual([]);
  });

  it("loses no volume that waits to be attached, and takes no device of the host for one", async () => {
    const host = new MemoryHost({
      ...base,
      values: { scsi0: "l1:x", scsi1: "/dev/sdx" },
      pending: { ide0: "l1:later", ide1: "l1:vm-100-cloudinit,media=cdrom", cores: "4" },
      snapshots: { s1: { scsi0: "l1:x" } },
    });
    await rollbackSnapshot(host, "s1");
    expect(host.config.values).toEqual({ parent: "s1", scsi0: "l1:x", unused0: "l1:later" });
    expect(host.config.pending).toEqual({});
    expect(host.log).toContain("free l1:vm-100-cloudinit");
  });

  it("keeps what a snapshot without a machine says of the CPU", () => {
    const config = setLock({ ...emptyVmConfig, snapshots: { s1: { runningcpu: "host" } } }, "rollback");
    expect(finishRollback(vmSnapshotRules, config, "s1", { newUuid: () => UUID }).config.values).toEqual({
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
    expect(() => finishRollback(vmSnapshotRules, withState, "s1", { newUuid: () => UUID })).toThrow(
      "got wrong lock",
    );
  });
});
