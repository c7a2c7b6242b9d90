import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, it } from "vitest";
import { exec } from "@gpve/kit/exec.ts";
import { hostScripts } from "./run-script.ts";

it("gives the exit code of a script, whatever it is, and each line that it says", async () => {
  const folder = mkdtempSync(join(tmpdir(), "gpve-script-"));
  try {
    const path = join(folder, "hook.sh");
    writeFileSync(path, '#!/bin/sh\necho "$1 is $2"\nexit 7\n', { mode: 0o755 });
    const said: string[] = [];
    const code = await hostScripts(exec).run(path, ["100", "pre-start"], { log: (line) => said.push(line) });
    expect({ code, said }).toEqual({ code: 7, said: ["100 is pre-start"] });
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
});
