// The program as one file: built as a release is, started where there is no source tree.
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { exec, MINIMAL_ENV } from "@gpve/kit/exec.ts";
import { startChild, type Child } from "@gpve/kit/testing/child.ts";
import { afterAll, beforeAll, expect, test } from "vitest";
import { apiOf, nodeBinary, readCredentials, root, untilPrinted } from "../support/gpve.ts";

const binary = join(root, "dist/gpve");
const cwd = mkdtempSync(join(tmpdir(), "gpve-sea-"));
const data = join(cwd, "data");
let child: Child | undefined;

beforeAll(async () => {
  await exec(nodeBinary, [join(root, "tools/build/binary.ts")], { cwd: root, timeoutMs: 120_000 });
});

afterAll(async () => {
  child?.signal("SIGTERM");
  await child?.exited;
  rmSync(cwd, { recursive: true, force: true });
});

test("starts, answers on both faces, and is gpvectl under that name", async () => {
  child = startChild(binary, ["up", "--no-network", "--data", data, "--listen", "127.0.0.1:0"], { cwd });
  await untilPrinted(child, "Try next:", 40_000);
  const credentials = readCredentials(data);
  const version = await apiOf(credentials)("GET", "/version");
  expect(version.status).toBe(200);
  expect(version.data).toHaveProperty("version");
  expect((await apiOf(credentials, undefined, "/api/v1")("GET", "/openapi.json")).status).toBe(200);
  const listed = await exec(join(root, "dist/gpvectl"), ["node", "list", "--data", data], { cwd });
  expect(listed.stdout).toContain("online");
  await exec(binary, ["pve-commands", "install", join(cwd, "bin")], { cwd });
  const env = { ...MINIMAL_ENV, GPVE_DATA: data };
  const storages = await exec(join(cwd, "bin/pvesm"), ["status"], { cwd, env });
  expect(storages.stdout).toMatch(/^local +dir +active /m);
});
