// What each snapshot case asks: the suite's files hold only the configuration before and after.
import { VOLUME_FAILURES, type Asked } from "./qemu-snapshot-host.ts";

export interface Case extends Asked {
  readonly error?: string;
  /** Volumes touched, by the number at the end of their name. */
  readonly volumes?: readonly number[];
  readonly removed?: readonly number[];
}

/** Cases whose files were there when this was written: held to the letter. */
export const knownCases: readonly Case[] = [
  { phase: "prepare", vmid: 101, name: "test" },
  { phase: "prepare", vmid: 102, name: "test", withState: true },
  { phase: "prepare", vmid: 103, name: "test2" },
  { phase: "prepare", vmid: 104, name: "test2", withState: true },
  { phase: "prepare", vmid: 200, name: "test", error: "VM is locked (snapshot)" },
  { phase: "prepare", vmid: 201, name: "test", error: "snapshot name 'test' already used" },
  {
    phase: "prepare",
    vmid: 202,
    name: "test",
    withState: true,
    trouble: "no-state",
    error: "save_vmstate failed",
  },
  {
    phase: "prepare",
    vmid: 300,
    name: "test",
    trouble: "no-feature",
    error: "snapshot feature is not available",
  },
  { phase: "delete", vmid: 101, name: "test", removed: [1] },
  { phase: "delete", vmid: 102, name: "test2", removed: [1] },
  { phase: "delete", vmid: 103, name: "test", removed: [1] },
  { phase: "delete", vmid: 104, name: "test2", removed: [1] },
  { phase: "delete", vmid: 105, name: "test", force: true },
  { phase: "delete", vmid: 106, name: "test", force: true, removed: [1, 3] },
  { phase: "delete", vmid: 201, name: "test", error: VOLUME_FAILURES.delete },
  { phase: "delete", vmid: 202, name: "test", error: VOLUME_FAILURES.delete, removed: [1] },
  { phase: "delete", vmid: 203, name: "test", error: "VM is locked (backup)" },
  { phase: "delete", vmid: 204, name: "test", trouble: "no-storage", error: "storage activation failed" },
  { phase: "rollback", vmid: 101, name: "test", volumes: [1] },
  { phase: "rollback", vmid: 102, name: "test2", volumes: [1] },
  { phase: "rollback", vmid: 103, name: "test", volumes: [1] },
  { phase: "rollback", vmid: 104, name: "test2", volumes: [1] },
  { phase: "rollback", vmid: 105, name: "test", volumes: [1, 2, 3] },
  { phase: "rollback", vmid: 106, name: "test", volumes: [1] },
  { phase: "rollback", vmid: 201, name: "test2", error: "snapshot 'test2' does not exist" },
  { phase: "rollback", vmid: 202, name: "test", error: VOLUME_FAILURES.check },
  {
    phase: "rollback",
    vmid: 203,
    name: "test",
    error: "unable to rollback to incomplete snapshot (snapstate = delete)",
  },
  { phase: "rollback", vmid: 204, name: "test", error: "VM is locked (backup)" },
  {
    phase: "rollback",
    vmid: 205,
    name: "test",
    trouble: "no-stop",
    error: "unable to rollback vm 205: vm is running",
  },
  { phase: "rollback", vmid: 206, name: "test", error: VOLUME_FAILURES.check },
  { phase: "rollback", vmid: 207, name: "test", error: VOLUME_FAILURES.rollback, volumes: [1, 2] },
  { phase: "rollback", vmid: 301, name: "test", volumes: [1] },
  { phase: "rollback", vmid: 302, name: "test", volumes: [1] },
  { phase: "rollback", vmid: 303, name: "test", trouble: "no-storage", error: "storage activation failed" },
];

/** Cases whose files were not there: what they probably ask. Where the files disagree, the files are believed. */
export const likelyCases: readonly Case[] = [
  { phase: "commit", vmid: 101, name: "test" },
  { phase: "commit", vmid: 102, name: "test2" },
  { phase: "commit", vmid: 201, name: "test", error: "missing snapshot lock" },
  { phase: "commit", vmid: 202, name: "test", error: "snapshot 'test' does not exist" },
  { phase: "commit", vmid: 203, name: "test", error: "wrong snapshot state" },
  { phase: "create", vmid: 101, name: "test", volumes: [1] },
  { phase: "create", vmid: 102, name: "test", withState: true, volumes: [1] },
  { phase: "create", vmid: 103, name: "test2", volumes: [1] },
  { phase: "create", vmid: 104, name: "test2", withState: true, volumes: [1] },
  { phase: "create", vmid: 105, name: "test", volumes: [1, 2, 3] },
  { phase: "create", vmid: 106, name: "test", withState: true, trouble: "no-freeze", volumes: [1] },
  { phase: "create", vmid: 201, name: "test", error: VOLUME_FAILURES.snapshot },
  { phase: "create", vmid: 202, name: "test", error: VOLUME_FAILURES.snapshot, volumes: [1], removed: [1] },
  { phase: "create", vmid: 203, name: "test", trouble: "no-savevm", error: "savevm-start disabled" },
  { phase: "create", vmid: 301, name: "test", withState: true, volumes: [1] },
  {
    phase: "create",
    vmid: 303,
    name: "test",
    withState: true,
    trouble: "no-storage",
    error: "storage activation failed",
  },
];
