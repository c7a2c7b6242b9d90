import { mkdirSync, mkdtempSync, realpathSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, expect, it } from "vitest";
import type { StoragePlugin } from "@gpve/domain/storage/plugin.ts";
import { exec } from "@gpve/kit/exec.ts";
import { readSnippet } from "./snippets.ts";

const folder = realpathSync(mkdtempSync(join(tmpdir(), "gpve-snippets-")));
afterAll(() => rmSync(folder, { recursive: true, force: true }));
const at = (name: string): string => join(folder, "snippets", name);
mkdirSync(at(""), { recursive: true });
writeFileSync(join(folder, "secret"), "secret");
writeFileSync(at("plain"), "text");
symlinkSync(join(folder, "secret"), at("out"));
symlinkSync(at("plain"), at("in"));

const plugin = { activate: async () => undefined, path: at } as unknown as StoragePlugin;
const read = (volname: string): Promise<string> => readSnippet(() => ({ plugin, volname }), `s:${volname}`);

it("reads a file, and follows no link", async () => {
  expect(await read("plain")).toBe("text");
  for (const name of ["out", "in"]) await expect(read(name)).rejects.toThrow("is a link");
  await expect(read("none")).rejects.toThrow("volume 's:none' does not exist");
});

it("waits for no pipe, and reads no more than a snippet may have", async () => {
  await exec("mkfifo", [at("pipe")]);
  await expect(read("pipe")).rejects.toThrow("is not a file");
  writeFileSync(at("large"), Buffer.alloc(1024 * 1024 + 1));
  await expect(read("large")).rejects.toThrow("too long");
  writeFileSync(at("full"), Buffer.alloc(1024 * 1024, "x"));
  expect(await read("full")).toHaveLength(1024 * 1024);
});
