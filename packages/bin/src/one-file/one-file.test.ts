import { mkdirSync, mkdtempSync, readFileSync, rmSync, utimesSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { exec } from "@gpve/kit/exec.ts";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { currentOneFile, inputsFileOf } from "./current-one-file.js";
import { makeOneFile } from "./make-one-file.ts";

const entry = "packages/bin/src/program.ts";
const part = "packages/kit/src/part.ts";
let root = "";

function write(path: string, text: string, ageMs = 60_000): void {
  const file = join(root, path);
  mkdirSync(dirname(file), { recursive: true });
  writeFileSync(file, text);
  const then = new Date(Date.now() - ageMs);
  utimesSync(file, then, then);
}

beforeEach(() => {
  root = mkdtempSync(join(tmpdir(), "gpve-one-file-"));
  write("package-lock.json", "{}");
  write(entry, 'import { word } from "../../kit/src/part.ts";\nconsole.log(word());\n');
  write(part, 'export function word(): string {\n  // Why.\n  return "one";\n}\n');
});
afterEach(() => rmSync(root, { recursive: true, force: true }));

const said = async (): Promise<string> => {
  const file = currentOneFile(root);
  if (file === undefined) return "no file";
  return (await exec(process.execPath, [file])).stdout.trim();
};

describe("the program as one file", () => {
  test("is there once it was made, and runs without its sources", async () => {
    expect(await said()).toBe("no file");
    await makeOneFile(root);
    expect(await said()).toBe("one");
    const file = currentOneFile(root) ?? "";
    rmSync(join(root, part));
    expect((await exec(process.execPath, [file])).stdout).toBe("one\n");
  });

  test.each([
    ["a source that is edited", () => write(part, 'export const word = () => "two";\n', 30_000)],
    ["a source of the same time and another size", () => write(part, "export const word = () => 2;\n")],
    ["a source that is gone", () => rmSync(join(root, part))],
    ["other packages of npm", () => write("package-lock.json", "{ }", 30_000)],
    ["a list of sources that was cut off", () => writeFileSync(inputsFileOf(root), '{"packages')],
  ])("counts no more after %s", async (_, change) => {
    await makeOneFile(root);
    change();
    expect(currentOneFile(root)).toBeUndefined();
  });

  test("is made anew from what is there now", async () => {
    await makeOneFile(root);
    write(part, 'export const word = () => "two";\n', 30_000);
    await makeOneFile(root);
    expect(await said()).toBe("two");
  });

  test("never counts where a source changed while it was read", async () => {
    write(part, 'export const word = () => "two";\n', -60_000);
    await makeOneFile(root);
    expect(currentOneFile(root)).toBeUndefined();
  });

  test("has no comments and keeps the names of functions, for whoever reads a stack", async () => {
    await makeOneFile(root);
    const text = readFileSync(currentOneFile(root) ?? "", "utf8");
    expect(text).not.toContain("Why.");
    expect(text).toContain("function word()");
  });
});
