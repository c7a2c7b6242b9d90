import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Exec } from "@gpve/kit/exec.ts";
import { expect, onTestFinished, test } from "vitest";
import { ownImageTools } from "./own-tools.ts";

function run(mayUnshare: boolean) {
  const folder = mkdtempSync(join(tmpdir(), "gpve-tools-"));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  const started: string[] = [];
  const exec: Exec = async (program) => {
    started.push(program);
    if (program === "unshare" && !mayUnshare) throw new Error("not permitted");
    return { code: 0, stdout: "", stderr: "" };
  };
  const data = { file: (...names: string[]) => join(folder, ...names), instanceId: "test" };
  const tools = ownImageTools({ data, exec, supervisor: { binary: "/bin/held" }, isRoot: false });
  return { tools, started };
}

test("an ordinary user's tools are confined where the kernel lets him, which is tried once", async () => {
  const { tools, started } = run(true);
  await tools("true", [], []);
  await tools("true", [], []);
  expect(started).toEqual(["unshare", "/bin/held", "/bin/held"]);
});

test("else they run as he does", async () => {
  const { tools, started } = run(false);
  await tools("true", [], []);
  expect(started).toEqual(["unshare", "true"]);
});
