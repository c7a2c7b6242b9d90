import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, expect, test } from "vitest";
import { auditFiles, lastAuditLines, writeAuditPolicy } from "./cluster-audit.ts";

const place = mkdtempSync(join(tmpdir(), "gpve-audit-"));
afterAll(() => rmSync(place, { recursive: true, force: true }));

test("the audit log of a cluster has a policy, and its last whole lines are shown", () => {
  expect(lastAuditLines(place)).toEqual([]);
  writeAuditPolicy(place);
  const { policy, folder } = auditFiles(place);
  expect(JSON.parse(readFileSync(policy, "utf8"))).toMatchObject({ kind: "Policy" });
  writeFileSync(join(folder, "audit.log"), "one\ntwo\n");
  expect(lastAuditLines(place)).toEqual(["one", "two"]);
  const line = "x".repeat(1023);
  writeFileSync(join(folder, "audit.log"), `${Array.from({ length: 400 }, () => line).join("\n")}\nlast\n`);
  const lines = lastAuditLines(place);
  expect(lines.at(-1)).toBe("last");
  expect(lines.slice(0, -1).every((each) => each === line)).toBe(true);
  expect(lines.length).toBeLessThan(260);
});
