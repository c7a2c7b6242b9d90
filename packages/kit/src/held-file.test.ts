import { mkdtempSync, rmSync, statSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { exec } from "./exec.ts";
import { openPlainFile, withHeldFile } from "./held-file.ts";

describe("a file where others may write", () => {
  let folder: string;
  const at = (name: string): string => join(folder, name);
  beforeEach(() => {
    folder = mkdtempSync(join(tmpdir(), "gpve-held-"));
    writeFileSync(at("a"), "content", { mode: 0o600 });
    symlinkSync(at("a"), at("link"));
  });
  afterEach(() => rmSync(folder, { recursive: true, force: true }));

  it("is changed as it was looked at, also when a link takes its place meanwhile", async () => {
    writeFileSync(at("b"), "", { mode: 0o600 });
    await withHeldFile(at("b"), async ({ facts, chmod }) => {
      expect(facts.isFile()).toBe(true);
      rmSync(at("b"));
      symlinkSync(at("a"), at("b"));
      await chmod(0o666);
    });
    expect(statSync(at("a")).mode & 0o777).toBe(0o600);
    await withHeldFile(at("a"), ({ chmod }) => chmod(0o640));
    expect(statSync(at("a")).mode & 0o777).toBe(0o640);
  });

  it("is no link", async () => {
    await expect(withHeldFile(at("link"), ({ chmod }) => chmod(0o666))).rejects.toThrow("is a link where");
    await expect(openPlainFile(at("link"))).rejects.toThrow("is a link where");
    expect(statSync(at("a")).mode & 0o777).toBe(0o600);
  });

  it("is read when it is a plain one, and no pipe is waited for", async () => {
    const file = await openPlainFile(at("a"));
    expect(await file.readFile("utf8")).toBe("content");
    await file.close();
    await exec("mkfifo", [at("pipe")]);
    await expect(openPlainFile(at("pipe"))).rejects.toThrow("is no plain file");
    await expect(openPlainFile(at("none"))).rejects.toThrow("ENOENT");
  });
});
