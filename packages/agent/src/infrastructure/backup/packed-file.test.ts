import { randomBytes } from "node:crypto";
import {
  existsSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
  writeSync,
} from "node:fs";
import { open, type FileHandle } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { exec } from "@gpve/kit/exec.ts";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { plainTools, type ImageTools } from "../image-tools/image-tools.ts";
import { createPackedFile, openPackedFile } from "./packed-file.ts";

const tools = plainTools(exec);
const full = (): Promise<FileHandle> => open("/dev/full", "w");
let folder: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "gpve-packed-"));
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

describe.each(["none", "gzip", "zstd", "lzo"] as const)("a file packed with %s", (compression) => {
  const noise = Array.from({ length: 40 }, () => randomBytes(256 * 1024));

  test("comes out as it went in, under its name only when it is whole", async () => {
    const path = join(
      folder,
      `a${{ none: ".vma", gzip: ".vma.gz", zstd: ".vma.zst", lzo: ".vma.lzo" }[compression]}`,
    );
    const file = await createPackedFile(tools, path, compression);
    for (const bytes of noise) await file.write(bytes);
    expect(existsSync(path)).toBe(false);
    await file.finish();
    const chunks: Uint8Array[] = [];
    for await (const chunk of await openPackedFile(tools, path)) chunks.push(chunk);
    expect(Buffer.concat(chunks).equals(Buffer.concat(noise))).toBe(true);
    expect(readdirSync(folder)).toHaveLength(1);
  });

  test("says that its disk is full, while it is written or at the latest at its end", async () => {
    const path = join(folder, "full.vma");
    const file = await createPackedFile(tools, path, compression, full);
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

    const short = await createPackedFile(tools, path, compression, full);
    const little = async (): Promise<void> => {
      await short.write(Buffer.from("a little"));
      await short.finish();
    };
    await expect(little()).rejects.toMatchObject({ code: "capacity.exceeded" });
    await short.abandon();
  });
});

test("links in the place of an archive, or of what it is written to, are not followed", async () => {
  const secret = join(folder, "secret");
  writeFileSync(secret, "secret");
  const path = join(folder, "a.vma");
  for (const name of [path, `${path}.dat`, `${path}.dat.lzo`, `${path}.gz`]) symlinkSync(secret, name);
  for (const name of [path, `${path}.gz`])
    await expect(openPackedFile(tools, name)).rejects.toThrow("is a link where a file should be");
  const file = await createPackedFile(tools, path, "lzo");
  await file.write(Buffer.from("backup"));
  await file.finish();
  expect(readFileSync(secret, "utf8")).toBe("secret");
  expect(readFileSync(path).includes("LZO")).toBe(true);
});

test("an archive that lzop refuses leaves nothing beside it", async () => {
  const refuse = (): Promise<never> => Promise.reject(new Error("lzop: not a lzop file"));
  await expect(openPackedFile(refuse, join(folder, "a.vma.lzo"))).rejects.toThrow("not a lzop file");
  expect(readdirSync(folder)).toEqual([]);
});

test("an archive of lzop is read by two at once, and nothing stays beside it", async () => {
  const path = join(folder, "a.vma.lzo");
  writeFileSync(path, "archive");
  const lzop: ImageTools = async (_program, args, _files, options) => {
    writeSync(options?.stdoutFile ?? -1, readFileSync(args.at(-1) ?? ""));
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
