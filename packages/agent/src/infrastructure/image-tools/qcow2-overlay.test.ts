import { mkdtempSync, rmSync, truncateSync, writeFileSync } from "node:fs";
import { open } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, expect, test } from "vitest";
import { exec } from "@gpve/kit/exec.ts";
import { writeOverlay, type Overlay } from "./qcow2-overlay.ts";

const folder = mkdtempSync(join(tmpdir(), "gpve-overlay-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

async function writeNew(path: string, overlay: Overlay): Promise<void> {
  const file = await open(path, "w");
  try {
    await writeOverlay(file, overlay);
  } finally {
    await file.close();
  }
}

async function infoOf(path: string): Promise<Record<string, unknown>> {
  const { stdout } = await exec("qemu-img", ["info", "--output=json", "-f", "qcow2", path]);
  const { filename: _name, children: _files, "actual-size": _used, ...info } = JSON.parse(stdout);
  return info as Record<string, unknown>;
}

test.each([1, 512, 1_000_000, 2 ** 29, 2 ** 29 + 1, 10 * 2 ** 30, 20 * 2 ** 40])(
  "what qemu-img sees of a clone of %i bytes is what it would have made",
  async (size) => {
    const base = join(folder, "base.raw");
    writeFileSync(base, "");
    truncateSync(base, Math.min(size, 2 ** 40));
    const ours = join(folder, "ours.qcow2");
    const theirs = join(folder, "theirs.qcow2");
    await writeNew(ours, { size, backingFile: "base.raw", backingFormat: "raw" });
    const argv = ["create", "-q", "-f", "qcow2", "-F", "raw", "-b", "base.raw", theirs, `${size}`];
    await exec("qemu-img", argv);
    expect(await infoOf(ours)).toEqual(await infoOf(theirs));
    await exec("qemu-img", ["check", "-q", "-f", "qcow2", ours]);
    rmSync(ours);
    rmSync(theirs);
  },
);

test("it reads as its base does, and takes what is written", async () => {
  const base = join(folder, "written.raw");
  writeFileSync(base, Buffer.alloc(3 * 2 ** 20, "gpve"));
  const ours = join(folder, "written.qcow2");
  await writeNew(ours, { size: 3 * 2 ** 20, backingFile: "written.raw", backingFormat: "raw" });
  const compared = await exec("qemu-img", ["compare", "-f", "qcow2", "-F", "raw", ours, base]);
  expect(compared.stdout).toContain("Images are identical");
  await exec("qemu-io", ["-f", "qcow2", "-c", "write -P 7 1M 64k", ours]);
  const read = await exec("qemu-io", ["-f", "qcow2", "-c", "read -P 7 1M 64k", ours]);
  expect(read.stdout).toContain("read 65536/65536 bytes");
  expect(read.stdout).not.toContain("verification failed");
  const checked = await exec("qemu-img", ["check", "-f", "qcow2", ours]);
  expect(checked.stdout).toContain("No errors were found");
});

test("names and sizes that the format cannot hold are refused", async () => {
  const path = join(folder, "never.qcow2");
  await expect(
    writeNew(path, { size: 512, backingFile: "x".repeat(1024), backingFormat: "raw" }),
  ).rejects.toThrow("1 to 1023");
  await expect(writeNew(path, { size: 2 ** 51, backingFile: "base", backingFormat: "raw" })).rejects.toThrow(
    "too large",
  );
});
