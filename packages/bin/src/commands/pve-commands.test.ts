import { mkdtempSync, readFileSync, readlinkSync, rmSync, writeFileSync, readdirSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { pveCommandNames } from "../pve-command-names.ts";
import { pveCommands } from "./pve-commands.ts";

const launcher = resolve(import.meta.dirname, "../../../../gpve");
const io = { out: () => undefined, err: () => undefined, isTerminal: false, env: {} };
const [, entry] = process.argv;
let folder: string;

beforeEach(() => {
  folder = join(mkdtempSync(join(tmpdir(), "gpve-links-")), "bin");
  process.argv[1] = resolve(import.meta.dirname, "../main.js");
});
afterEach(() => {
  process.argv[1] = entry ?? "";
  rmSync(resolve(folder, ".."), { recursive: true, force: true });
});

test("links of PVE's names come and go", async () => {
  expect(await pveCommands(["install", folder], io)).toBe(0);
  expect(await pveCommands(["install", folder], io)).toBe(0);
  expect(pveCommandNames.map((name) => readlinkSync(join(folder, name)))).toEqual(
    pveCommandNames.map(() => launcher),
  );
  expect(await pveCommands(["remove", folder], io)).toBe(0);
  expect(readdirSync(folder)).toEqual([]);
});

test("a Proxmox host's own commands are left alone, all of them", async () => {
  await pveCommands(["install", folder], io);
  await pveCommands(["remove", folder], io);
  writeFileSync(join(folder, "pvesm"), "#!/usr/bin/perl\n");
  await expect(pveCommands(["install", folder], io)).rejects.toThrow("is not a link to");
  await expect(pveCommands(["remove", folder], io)).rejects.toThrow("nothing was changed");
  expect(readdirSync(folder)).toEqual(["pvesm"]);
});

test("the launcher knows the names, and anything else is refused", async () => {
  expect(readFileSync(launcher, "utf8")).toContain(`case "$called" in ${pveCommandNames.join(" | ")})`);
  await expect(pveCommands(["install"], io)).rejects.toThrow("pve-commands install DIR");
  await expect(pveCommands(["destroy", folder], io)).rejects.toThrow("pve-commands install DIR");
  process.argv[1] = join(folder, "elsewhere.ts");
  await expect(pveCommands(["install", folder], io)).rejects.toThrow("there is no launcher");
});
