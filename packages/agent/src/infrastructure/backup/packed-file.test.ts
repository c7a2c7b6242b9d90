import { randomBytes } from "node:crypto";
import { constants, copyFileSync, existsSync, mkdtempSync, readdirSync } from "node:fs";
import { rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { exec, type Exec } from "@gpve/kit/exec.ts";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { createPackedFile, openPackedFile } from "./packed-file.ts";

let folder: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "gpve-packed-"));
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

describe.each(["none", "gzip", "zstd"] as const)("a file packed with %s", (compression) => {
  const noise = Array.from({ length: 40 }, () => randomBytes(256 * 1024));

  test("comes out as it went in, under its name only when it is whole", async () => {
    const path = join(folder, `a${{ none: ".vma", gzip: ".vma.gz", zstd: ".vma.zst" }[compression]}`);
    const file = createPackedFile(exec, path, compression);
    for (const bytes of noise) await file.write(bytes);
    expect(existsSync(path)).toBe(false);
    await file.finish();
    const chunks: Uint8Array[] = [];
    for await (const chunk of await openPackedFile(exec, path)) chunks.push(chunk);
    expect(Buffer.concat(chunks).equals(Buffer.concat(noise))).toBe(true);
    expect(readdirSync(folder)).toHaveLength(1);
  });

  test("says that its disk is full, while it is written or at the latest at its end", async () => {
    const path = join(folder, "full.vma");
    symlinkSync("/dev/full", `${path}.dat`);
    const file = createPackedFile(exec, path, compression);
    const all = async (): Promise<void> => {
      for (const bytes of noise) await file.write(bytes);
      await file.finish();
    };
    await expect(all()).rejects.toMatchObject({
      code: "capacity.exceeded",
      message: `writing the backup ${path} failed: ENOSPC: no space left on device, write`,
    });
    await expect(file.write(Buffer.alloc(1))).rejects.toThrow("ENOSPC");
    await file.abandon();
    expect(readdirSync(folder)).toEqual([]);

    symlinkSync("/dev/full", `${path}.dat`);
    const short = createPackedFile(exec, path, compression);
    const little = async (): Promise<void> => {
      await short.write(Buffer.from("a little"));
      await short.finish();
    };
    await expect(little()).rejects.toMatchObject({ code: "capacity.exceeded" });
    await short.abandon();
  });
});

test("an archive that lzop refuses leaves nothing beside it", async () => {
  const refuse = (): Promise<never> => Promise.reject(new Error("lzop: not a lzop file"));
  await expect(openPackedFile(refuse, join(folder, "a.vma.lzo"))).rejects.toThrow("not a lzop file");
  expect(readdirSync(folder)).toEqual([]);
});

test("an archive of lzop is read by two at once, and nothing stays beside it", async () => {
  const path = join(folder, "a.vma.lzo");
  writeFileSync(path, "archive");
  const lzop: Exec = async (_file, args) => {
    copyFileSync(args.at(-1) ?? "", args[args.indexOf("-o") + 1] ?? "", constants.COPYFILE_EXCL);
    return { code: 0, stdout: "", stderr: "" };
  };
  const both = await Promise.all([openPackedFile(lzop, path), openPackedFile(lzop, path)]);
  expect(readdirSync(folder)).toEqual(["a.vma.lzo"]);
  for (const one of both) {
    const chunks: Uint8Array[] = [];
    for await (const chunk of one) chunks.push(chunk);
    expect(Buffer.concat(chunks).toString()).toBe("archive");
  }
});
