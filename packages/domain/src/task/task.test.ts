import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { listTasks } from "./task-list.ts";
import type { TaskQuery } from "./task-list.ts";
import { decodeTaskRecord, recordOfTask, taskOfRecord, taskRecordId } from "./task-record.ts";
import { ownsTask, splitAuthid, statusTypeOf, taskFromUpid } from "./task.ts";
import type { Task } from "./task.ts";
import { formatUpid } from "./upid.ts";

function task(pid: number, over: Partial<Task> = {}): Task {
  const { type = "qmstart", id = "100", authid = "joe@pve", starttime = 1_000 + pid, node = "n1" } = over;
  const upid = formatUpid({ node, pid, pstart: 1, starttime, type, id, user: authid });
  const base = taskFromUpid(upid);
  if (base === undefined) throw new Error("bad test task");
  return { ...base, ...over };
}

const ended = (pid: number, exitstatus: string, over: Partial<Task> = {}): Task =>
  task(pid, { endtime: 2_000 + pid, exitstatus, ...over });

const tasks = [
  ended(1, "OK"),
  ended(2, "WARNINGS: 3", { type: "qmclone", id: "101" }),
  ended(3, "no space", { authid: "ann@pve!ci" }),
  ended(4, "unexpected status", { authid: "ann@pve" }),
  task(5),
  task(6, { authid: "ann@pve!ci" }),
];
const auditor = { authid: "root@pam", auditor: true };
const pids = (query: TaskQuery, viewer = auditor): number[] =>
  listTasks(tasks, query, viewer).rows.map((row) => row.pid);

describe("listTasks", () => {
  it("lists finished tasks, newest first, unless asked for others", () => {
    expect(pids({})).toEqual([4, 3, 2, 1]);
    expect(pids({ source: "active" })).toEqual([6, 5]);
    expect(pids({ source: "all" })).toEqual([6, 5, 4, 3, 2, 1]);
    expect(listTasks(tasks, { source: "active" }, auditor).rows[0]?.status).toBe("RUNNING");
  });

  it("shows users and tokens apart", () => {
    const [, row] = listTasks(tasks, {}, auditor).rows;
    expect(row).toEqual({
      upid: tasks[2]?.upid,
      node: "n1",
      pid: 3,
      pstart: 1,
      starttime: 1_003,
      endtime: 2_003,
      type: "qmstart",
      id: "100",
      user: "ann@pve",
      tokenid: "ci",
      status: "no space",
    });
  });

  it("filters by user, type, guest, time and status", () => {
    expect(pids({ userfilter: "ANN" })).toEqual([4, 3]);
    expect(pids({ userfilter: "" })).toHaveLength(4);
    expect(pids({ typefilter: "qmclone" })).toEqual([2]);
    expect(pids({ vmid: 101 })).toEqual([2]);
    expect(pids({ since: 1_003 })).toEqual([4, 3]);
    expect(pids({ until: 1_002 })).toEqual([2, 1]);
    expect(pids({ errors: true, statusfilter: "ok" })).toEqual([4, 3, 2]);
    expect(pids({ statusfilter: "OK,warning" })).toEqual([2, 1]);
    expect(pids({ statusfilter: "error unknown" })).toEqual([4, 3]);
  });

  it("pages, and counts all matches", () => {
    expect(listTasks(tasks, { start: 1, limit: 2 }, auditor)).toMatchObject({
      rows: [{ pid: 3 }, { pid: 2 }],
      total: 4,
    });
    expect(listTasks(tasks, { limit: 0 }, auditor)).toEqual({ rows: [], total: 4 });
    const many = Array.from({ length: 60 }, (_, n) => ended(n + 1, "OK"));
    expect(listTasks(many, {}, auditor).rows).toHaveLength(50);
  });

  it("shows others only what is theirs: users also their tokens' tasks, tokens only their own", () => {
    expect(pids({ source: "all" }, { authid: "ann@pve", auditor: false })).toEqual([6, 4, 3]);
    expect(pids({ source: "all" }, { authid: "ann@pve!ci", auditor: false })).toEqual([6, 3]);
    expect(pids({ source: "all" }, { authid: "eve@pve", auditor: false })).toEqual([]);
  });
});

describe("exit status", () => {
  it("knows its kinds", () => {
    expect(["OK", "WARNINGS: 2", "boom", "unexpected status", "", undefined].map(statusTypeOf)).toEqual([
      "ok",
      "warning",
      "error",
      "unknown",
      "unknown",
      "unknown",
    ]);
  });
});

describe("owners and records", () => {
  it("splits token names", () => {
    expect(splitAuthid("a@b!c")).toEqual({ user: "a@b", tokenid: "c" });
    expect(ownsTask("a@b!c", { authid: "a@b" })).toBe(false);
  });

  it("records keep what the UPID does not say", () => {
    for (const one of tasks) {
      const record = recordOfTask(one);
      expect(taskOfRecord(decodeTaskRecord(JSON.parse(JSON.stringify(record))))).toEqual(one);
      expect(taskRecordId(one.upid)).toBe(`n1/${one.upid}`);
    }
    expect(taskRecordId("x")).toBeUndefined();
    expect(taskFromUpid("x")).toBeUndefined();
  });

  it("refuses records of another shape", () => {
    fc.assert(
      fc.property(fc.jsonValue(), (json) => {
        expect(() => decodeTaskRecord(json)).toThrow("no UPID");
      }),
    );
  });
});
