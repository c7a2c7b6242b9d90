import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { heardLog } from "../../testing/heard-log.ts";
import { findSupervisor } from "./find-supervisor.ts";

function parts() {
  const folder = mkdtempSync(join(tmpdir(), "gpve-supervisor-"));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  const heard = heardLog();
  const data = { file: (...names: string[]) => join(folder, ...names) };
  const exec = () => Promise.reject(new Error("no compiler"));
  return { folder, heard, data, exec, log: heard.log };
}

test("one that is ready is taken as it is", async () => {
  const { heard, ...rest } = parts();
  expect(await findSupervisor({ ...rest, supervisor: { binary: "/usr/bin/held" } })).toEqual({
    path: "/usr/bin/held",
  });
  expect(heard.lines).toEqual([]);
});

test("where none can be built everything else goes on, and whoever starts a guest is told why", async () => {
  const { heard, folder, ...rest } = parts();
  mkdirSync(join(folder, "src"));
  writeFileSync(join(folder, "src", "main.c"), "");
  const { missing } = await findSupervisor({ ...rest, supervisor: { sourceFolder: folder } });
  await expect(missing).rejects.toThrow("Install a C compiler");
  expect(heard.lines).toEqual(["error no guest can start"]);
});
