import { mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { heardLog } from "../../testing/heard-log.ts";
import { leaveServiceGroup } from "./leave-service-group.ts";

let folder: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "gpve-group-"));
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

const as = (uid: number) => ({ pid: 7, getuid: () => uid });

test("root writes itself into each group of supervisors, others stay where they are", () => {
  const { log } = heardLog();
  const files = [join(folder, "a"), join(folder, "b")];
  leaveServiceGroup(() => files, log, as(1000));
  expect(readdirSync(folder)).toEqual([]);
  leaveServiceGroup(() => files, log, as(0));
  expect(files.map((file) => readFileSync(file, "utf8"))).toEqual(["7", "7"]);
});

test("one that cannot leave says what that means", () => {
  const heard = heardLog();
  leaveServiceGroup(() => [join(folder, "none", "cgroup.procs")], heard.log, as(0));
  expect(JSON.stringify(heard)).toContain("stays in the agent's group");
});
