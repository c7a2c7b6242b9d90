import { chmodSync, chownSync, mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, onTestFinished, test } from "vitest";
import { deviceFacts, readCdi } from "./read-cdi.ts";

const yaml = `cdiVersion: 0.5.0
kind: example.com/gpu
devices:
  - name: "0"
    containerEdits:
      deviceNodes:
        - path: /dev/fake0
          hostPath: /dev/zero
`;
const json = JSON.stringify({
  kind: "example.com/nic",
  devices: ["a", "b"].map((name) => ({ name, containerEdits: { env: [`NIC=${name}`] } })),
});

function folder(): string {
  const made = mkdtempSync(join(tmpdir(), "gpve-cdi-"));
  onTestFinished(() => rmSync(made, { recursive: true, force: true }));
  const own = join(made, "cdi");
  mkdirSync(own, { mode: 0o755 });
  return own;
}

describe("descriptions of devices on a node", () => {
  test("are read as YAML and as JSON, and none where there are none", async () => {
    const own = folder();
    expect(await readCdi([own, join(own, "none")])).toEqual({ specs: [], unread: [] });
    expect(await deviceFacts([own])).toBeUndefined();
    writeFileSync(join(own, "gpu.yaml"), yaml);
    writeFileSync(join(own, "nic.json"), json);
    writeFileSync(join(own, "notes.txt"), "kind: example.com/none");
    writeFileSync(join(own, "else.yml"), "something: else");
    const { specs, unread } = await readCdi([own]);
    expect(specs.map(({ kind, devices }) => [kind, devices.length])).toEqual([
      ["example.com/gpu", 1],
      ["example.com/nic", 2],
    ]);
    expect(unread).toEqual([]);
    expect(await deviceFacts([own])).toEqual([
      { kind: "example.com/gpu", count: 1 },
      { kind: "example.com/nic", count: 2 },
    ]);
  });

  test("are not taken from files that somebody else may have written, with the reason", async () => {
    const own = folder();
    const file = (name: string, text: string): string => {
      writeFileSync(join(own, name), text);
      return join(own, name);
    };
    chmodSync(file("loose.yaml", yaml), 0o664);
    if (process.getuid?.() === 0) chownSync(file("other.yaml", yaml), 1234, 0);
    symlinkSync("/etc/passwd", join(own, "link.yaml"));
    file("large.json", `"${"x".repeat(1024 * 1024)}"`);
    file("bombs.yaml", "a: &a [1]\nb: *a\n");
    file("broken.json", "{");
    mkdirSync(join(own, "folder.json"));
    file("whole.yaml", yaml);
    const { specs, unread } = await readCdi([own]);
    expect(specs.map(({ kind }) => kind)).toEqual(["example.com/gpu"]);
    expect(unread.join("\n")).toMatch(/loose.yaml is not read: others may write to it/);
    expect(unread).toHaveLength(process.getuid?.() === 0 ? 7 : 6);
    chmodSync(own, 0o777);
    expect(await readCdi([own])).toEqual({
      specs: [],
      unread: [`${own} is not read: others may write to it`],
    });
  });
});
