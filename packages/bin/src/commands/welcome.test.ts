import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { openDataDir } from "@gpve/kit/data-dir.ts";
import { expect, test } from "vitest";
import { welcome } from "./welcome.ts";

test("the first password is shown at a terminal, and nowhere that is kept", () => {
  const folder = mkdtempSync(join(tmpdir(), "gpve-welcome-"));
  try {
    const data = openDataDir(folder);
    const file = data.file("credentials.json");
    writeFileSync(file, JSON.stringify({ username: "root@pam", password: "first-one", fingerprint: "" }));
    const state = { url: "https://127.0.0.1:8006", node: "n1", version: "0", startedAt: "", pid: 1 };
    const shown = (isTerminal: boolean): string =>
      welcome(data, state as unknown as Parameters<typeof welcome>[1], isTerminal);
    expect(shown(true)).toContain("root@pam / first-one");
    expect(shown(false)).toContain(`root@pam / (password in ${file})`);
    expect(shown(false)).not.toContain("first-one");
    expect(shown(false)).toContain("vm create --image tiny --name demo --console");
    state.node = "n1, n2, n3";
    expect(shown(false)).toContain("--name demo --storage shared --image-storage shared --start");
    expect(shown(false)).toContain(`./gpve lab status --data ${data.path}`);
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
});
