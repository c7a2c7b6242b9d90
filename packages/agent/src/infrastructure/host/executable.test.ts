import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, test } from "vitest";
import { isExecutable } from "./executable.ts";

test("only a file with a right to run it is executable", () => {
  const folder = mkdtempSync(join(tmpdir(), "gpve-executable-"));
  try {
    writeFileSync(join(folder, "a.sh"), "", { mode: 0o755 });
    writeFileSync(join(folder, "b.sh"), "", { mode: 0o644 });
    expect(["a.sh", "b.sh", "c.sh", "."].map((name) => isExecutable(join(folder, name)))).toEqual([
      true,
      false,
      false,
      false,
    ]);
  } finally {
    rmSync(folder, { recursive: true });
  }
});
