import { describe, expect, test } from "vitest";
import { parseVmConfig } from "../vm/config/parse-config.ts";
import { ageText, failoverConfig } from "./failover-config.ts";
import {
  changedReplicationJob,
  newReplicationJob,
  replicationCollection,
  calendarOfReplication,
  shownReplicationJob,
} from "./replication-job.ts";
import {
  begunRun,
  endedRun,
  nextSync,
  noReplicationYet,
  replicationStateCollection,
  replicationStatus,
  staleReplicas,
  withoutReplica,
} from "./replication-state.ts";

const utc = (): number => 0;
const job = newReplicationJob("100-3", "n2", {}, 1_000);

describe("a replication job", () => {
  test("is named by its guest, runs every quarter of an hour, and hides what is nobody's business", () => {
    expect(job).toMatchObject({ guest: 100, jobnum: 3, target: "n2" });
    expect(nextSync(job, noReplicationYet, utc)).toBe(1_800);
    expect(shownReplicationJob({ ...job, replaces: ["x"] }, "n1")).toEqual({
      id: "100-3",
      guest: 100,
      jobnum: 3,
      target: "n2",
      type: "local",
      source: "n1",
    });
    expect(replicationCollection.decode({ ...job })).toEqual(job);
    expect(() => replicationCollection.decode({ id: 1 })).toThrow("shape");
  });

  test("changes by options, and forgets what is removed; a new calendar counts from now on", () => {
    const changed = changedReplicationJob(
      { ...job, comment: "x" },
      { schedule: "hourly" },
      ["comment"],
      5_000,
    );
    expect(changed).toEqual({ ...job, schedule: "hourly", since: 5_000 });
    expect(changedReplicationJob(job, { rate: 3 }, [], 5_000)).toEqual({ ...job, rate: 3 });
    expect(() => changedReplicationJob(job, {}, ["target"], 1)).toThrow(
      "unable to delete required option 'target'",
    );
    for (const key of ["id", "guest", "since"])
      expect(() => changedReplicationJob(job, {}, [key], 1)).toThrow(`no such option '${key}'`);
    expect(changedReplicationJob(job, {}, ["source"], 1)).toEqual(job);
    expect(() => newReplicationJob("100-0", "n2", { schedule: "never ever" }, 1)).toThrow(
      expect.objectContaining({ errors: { schedule: expect.stringContaining("calendar event") } }),
    );
    expect(() => calendarOfReplication({ ...job, schedule: "never ever" })).toThrow("calendar event");
  });
});

describe("what became of it", () => {
  const run = {
    node: "n1",
    target: "n2",
    at: 2_000,
    upid: "UPID:n1:0000000A:00000001:00000001:replicate:100:root@pam:",
  };

  test("a run that ends well makes a copy of the moment it began", () => {
    const begun = begunRun({ ...noReplicationYet, isWanted: true }, run);
    expect(nextSync(job, begun, utc)).toBeUndefined();
    expect(begun).not.toHaveProperty("isWanted");
    const ended = endedRun(begun, { at: 2_007 });
    expect(ended).toMatchObject({ lastSync: 2_000, lastTry: 2_000, duration: 7, failCount: 0 });
    expect(ended.replicas).toEqual({ n2: 2_000 });
    expect(nextSync(job, ended, utc)).toBe(2_700);
    expect(endedRun(ended, { at: 3_000 })).toBe(ended);
    expect(staleReplicas({ ...job, target: "n3" }, ended)).toEqual(["n2"]);
    expect(staleReplicas(undefined, withoutReplica(ended, "n2"))).toEqual([]);
  });

  test("one that fails is tried again after 5, 10 and then every 30 minutes, and keeps the copy before it", () => {
    let state = endedRun(begunRun(noReplicationYet, run), { at: 2_001 });
    const waits: number[] = [];
    for (let tries = 0; tries < 4; tries++) {
      state = endedRun(begunRun(state, { ...run, at: 3_000 }), { at: 3_001, error: "no way" });
      waits.push((nextSync(job, state, utc) ?? 0) - 3_000);
    }
    expect(waits).toEqual([300, 600, 1_800, 1_800]);
    expect(state).toMatchObject({ failCount: 4, error: "no way", lastSync: 2_000, replicas: { n2: 2_000 } });
    expect(replicationStateCollection.decode({ error: "x" })).toEqual({ failCount: 0, error: "x" });
    expect(replicationStatus(job, state, { source: "n1", vmtype: "qemu", zone: utc })).toMatchObject({
      fail_count: 4,
      error: "no way",
      last_sync: 2_000,
      last_try: 3_000,
      next_sync: 4_800,
      schedule: "*/15",
      vmtype: "qemu",
    });
    const running = begunRun(state, run);
    expect(replicationStatus(job, running, { source: "n1", vmtype: "qemu", zone: utc })).toMatchObject({
      pid: 10,
    });
  });

  test("it comes at once when asked for or removed, never while switched off", () => {
    expect(nextSync({ ...job, disable: true }, noReplicationYet, utc)).toBeUndefined();
    expect(nextSync({ ...job, disable: true }, { ...noReplicationYet, isWanted: true }, utc)).toBe(0);
    expect(nextSync({ ...job, disable: true, remove_job: "full" }, noReplicationYet, utc)).toBe(0);
    const failed = { failCount: 1, lastTry: 100 };
    expect(nextSync({ ...job, disable: true, remove_job: "full" }, failed, utc)).toBe(400);
  });
});

describe("the configuration after a failover", () => {
  const conf = [
    "lock: migrate",
    "parent: s1",
    "name: web",
    "ide2: local:iso/debian.iso,media=cdrom",
    "scsi0: local:9000/base-9000-disk-0.qcow2/100/vm-100-disk-0.qcow2,size=1G",
    "scsi1: shared:100/vm-100-disk-1.qcow2",
    "scsi2: local:100/vm-100-disk-2.qcow2,replicate=0",
    "unused0: local:100/vm-100-disk-3.qcow2",
    "",
    "[s1]",
    "name: web",
    "",
  ].join("\n");
  const config = parseVmConfig(conf, { vmid: 100, digestOf: () => "d" });

  test("names the copies, keeps what all nodes have, and tells what stays behind", () => {
    const source = "local:9000/base-9000-disk-0.qcow2/100/vm-100-disk-0.qcow2";
    const copies = [{ source, volid: "local:100/vm-100-disk-0.qcow2" }];
    const after = failoverConfig(config, copies, (storage) => storage === "local");
    expect(after.config.values).toEqual({
      name: "web",
      ide2: "none,media=cdrom",
      scsi0: "local:100/vm-100-disk-0.qcow2,size=1G",
      scsi1: "shared:100/vm-100-disk-1.qcow2",
    });
    expect(after.config.snapshots).toEqual({});
    expect(after.missing).toEqual(["scsi2 (local:100/vm-100-disk-2.qcow2)"]);
    expect(after.left).toEqual([
      "the disc in ide2 (local:iso/debian.iso)",
      "unused0 (local:100/vm-100-disk-3.qcow2)",
      "its snapshots (s1)",
    ]);
  });

  test("ages are told in the two units that matter", () => {
    expect([0, 59, 61, 3_725, 90_000].map(ageText)).toEqual([
      "0 s",
      "59 s",
      "1 min 1 s",
      "1 h 2 min",
      "1 d 1 h",
    ]);
  });
});
