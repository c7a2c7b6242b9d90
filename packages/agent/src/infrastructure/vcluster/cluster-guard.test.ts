import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { readVirtualClusterSpec } from "@gpve/domain/vcluster/vcluster-spec.ts";
import { guardFiles, writeGuard } from "./cluster-guard.ts";

let place: string;
beforeEach(() => {
  place = mkdtempSync(join(tmpdir(), "gpve-guard-"));
});
afterEach(() => rmSync(place, { recursive: true, force: true }));

const clusterOf = (version: string, privileged = false) => ({
  version,
  spec: readVirtualClusterSpec({ workerNodes: { privileged } }),
});

test("the guard is files where Kubernetes reads them, and what belongs to the platform always is", () => {
  writeGuard(place, clusterOf("1.36.4"));
  expect(readdirSync(join(place, "guard", "rules"))).toHaveLength(4);
  expect(guardFiles(place, clusterOf("1.35.6"))).not.toHaveProperty("guard");
  expect(guardFiles(place, clusterOf("1.35.6"))).toHaveProperty("rights");
});

test("an administrator's word leaves the guard out, and nothing of one before", () => {
  writeGuard(place, clusterOf("1.36.4"));
  const free = clusterOf("1.36.4", true);
  writeGuard(place, free);
  expect(guardFiles(place, free)).not.toHaveProperty("guard");
  expect(existsSync(join(place, "guard", "rules"))).toBe(false);
  const rights = readFileSync(join(place, "guard", "authorization.json"), "utf8");
  expect(rights).toContain("system:masters");
});

test.each([
  ["1.36.4", false],
  ["1.36.4", true],
  ["1.35.6", false],
])(
  "an API server of %s that runs (root allowed: %s) is told what is denied by the file that it has",
  (version, privileged) => {
    const cluster = clusterOf(version, privileged);
    const path = join(place, "guard", "authorization.json");
    writeGuard(place, cluster);
    const { ino } = statSync(path);
    writeGuard(place, cluster, { revoked: ["0123456789abcdef"] });
    expect(readFileSync(path, "utf8")).toContain("gpve:kubeconfig:0123456789abcdef");
    // A new one is not where it looks.
    expect(statSync(path).ino).toBe(ino);
  },
);
