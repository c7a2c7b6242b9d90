import { expect, test } from "vitest";
import { taskFromUpid } from "@gpve/domain/task/task.ts";
import { clusterLog } from "./cluster-log.ts";

const upid = "UPID:n1:00000001:00000002:00000064:qmstart:100:joe@pve:";
const task = taskFromUpid(upid, { endtime: 120, exitstatus: "no space" });
if (task === undefined) throw new Error("a valid UPID");
const event = (id: string, lastAt: number, name: string) => ({
  id,
  createRevision: 1,
  revision: 1,
  version: 1,
  value: {
    type: "Warning" as const,
    reason: "LoginFailed",
    object: { kind: "User", name },
    message: "login failed",
    count: 2,
    firstAt: 0,
    lastAt,
  },
});
const sources = { events: () => [event("e1", 110_000, "ann@pve")], tasks: () => [task], localNode: "n1" };

const viewer = (auditor: boolean, userid: string) => ({ actor: { userid }, access: { has: () => auditor } });

test("shows tasks and events newest first to those who may", () => {
  const rows = clusterLog(sources, viewer(true, "root@pam"), 50);
  expect(rows.map(({ time, pri, msg }) => [time, pri, msg])).toEqual([
    [120, 4, `end task ${upid} no space`],
    [110, 4, "login failed (2 times)"],
    [100, 6, `starting task ${upid}`],
  ]);
  expect(clusterLog(sources, viewer(true, "root@pam"), 1)).toHaveLength(1);
});

test("shows others only what they did", () => {
  expect(clusterLog(sources, viewer(false, "ann@pve"), 50).map((row) => row.user)).toEqual(["ann@pve"]);
  expect(clusterLog(sources, viewer(false, "bob@pve"), 50)).toEqual([]);
});
