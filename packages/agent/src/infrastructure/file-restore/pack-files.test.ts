import { randomBytes } from "node:crypto";
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { PackedEntry, TreeFile } from "@gpve/domain/backup/file-tree.ts";
import { exec } from "@gpve/kit/exec.ts";
import { packFiles } from "./pack-files.ts";

const dir = mkdtempSync(join(tmpdir(), "gpve-pack-"));
afterAll(() => rmSync(dir, { recursive: true, force: true }));

async function bytesOf(stream: AsyncIterable<Uint8Array>): Promise<Buffer> {
  const parts: Uint8Array[] = [];
  for await (const part of stream) parts.push(part);
  return Buffer.concat(parts);
}

describe("packed files", () => {
  const file = (name: string, kind: TreeFile["kind"], size = 0): TreeFile => ({
    name,
    kind,
    size,
    mtime: 1_700_000_000,
    mode: kind === "d" ? 0o755 : 0o644,
    uid: 5,
    gid: 6,
  });
  const deep = `d/${"long-".repeat(30)}ä`;
  async function* entries(): AsyncGenerator<PackedEntry> {
    async function* body(text: string): AsyncGenerator<Uint8Array> {
      yield Buffer.from(text);
    }
    yield { path: "d", file: file("d", "d") };
    yield { path: "d/one", file: file("one", "f", 3), body: body("one") };
    yield { path: deep, file: file("x", "f", 4), body: body("deep") };
    yield { path: "d/link", file: file("link", "l", 3), target: "one" };
    yield { path: "d/device", file: file("device", "b") };
  }
  beforeAll(() => mkdirSync(join(dir, "out")));

  test("as tar.zst are what tar unpacks", async () => {
    const path = join(dir, "a.tar.zst");
    writeFileSync(path, await bytesOf(packFiles("tar.zst", entries())));
    await exec("tar", ["--zstd", "-xf", path, "-C", join(dir, "out")]);
    expect(readFileSync(join(dir, "out", "d", "one"), "utf8")).toBe("one");
    expect(readFileSync(join(dir, "out", "d", "link"), "utf8")).toBe("one");
    expect(readFileSync(join(dir, "out", deep), "utf8")).toBe("deep");
    expect(existsSync(join(dir, "out", "d", "device"))).toBe(false);
  });

  test.skipIf(!existsSync("/usr/bin/python3"))("as zip are what python unpacks", async () => {
    const path = join(dir, "a.zip");
    writeFileSync(path, await bytesOf(packFiles("zip", entries())));
    expect((await exec("python3", ["-m", "zipfile", "-t", path])).stdout).toContain("Done testing");
    await exec("python3", ["-m", "zipfile", "-e", path, join(dir, "zip")]);
    expect(readFileSync(join(dir, "zip", "d", "one"), "utf8")).toBe("one");
    expect(readFileSync(join(dir, "zip", deep), "utf8")).toBe("deep");
  });
});

const ZIP_LIST =
  "import sys,zipfile\nfor i in zipfile.ZipFile(sys.argv[1]).infolist(): print(oct(i.external_attr >> 16), i.filename)";

describe.each(["tar.zst", "zip"] as const)("files being packed as %s", (format) => {
  const FILE: TreeFile = {
    name: "f",
    kind: "f",
    size: 64 * 65_536,
    mtime: 1_700_000_000,
    mode: 0o600,
    uid: 0,
    gid: 0,
  };
  let state = "";
  async function* big(end: "whole" | "broken"): AsyncGenerator<Uint8Array> {
    state = "open";
    try {
      for (let block = 0; block < 64; block++) {
        if (end === "broken" && block === 20) throw new Error("the disk cannot be read");
        yield randomBytes(65_536);
      }
    } finally {
      state = "closed";
    }
  }
  async function* one(end: "whole" | "broken"): AsyncGenerator<PackedEntry> {
    yield { path: "f", file: FILE, body: big(end) };
  }

  test("are let go of when nobody reads on", async () => {
    for await (const bytes of packFiles(format, one("whole"))) {
      expect(bytes.length).toBeGreaterThan(0);
      break;
    }
    expect(state).toBe("closed");
  });

  test("tell their reader when they cannot be read", async () => {
    await expect(bytesOf(packFiles(format, one("broken")))).rejects.toThrow("the disk cannot be read");
    expect(state).toBe("closed");
  });

  test.skipIf(!existsSync("/usr/bin/python3"))(
    "keep a mode of nothing, and names that lead nowhere",
    async () => {
      async function* shadow(): AsyncGenerator<PackedEntry> {
        yield { path: "..\\..\\up", file: { ...FILE, mode: 0, size: 0 } };
      }
      const path = join(dir, `modes.${format}`);
      writeFileSync(path, await bytesOf(packFiles(format, shadow())));
      // tar's own list doubles a backslash.
      const { stdout } =
        format === "zip"
          ? await exec("python3", ["-c", ZIP_LIST, path])
          : await exec("tar", ["--zstd", "-tvf", path]);
      expect(stdout).toMatch(
        format === "zip" ? /^0o100000 \.\._\.\._up$/m : /^---------- .* \.\.\\\\\.\.\\\\up$/m,
      );
    },
  );
});
