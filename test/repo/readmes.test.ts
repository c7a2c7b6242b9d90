// The README in Chinese says what the English one says: the same commands in the same order, the same options.
import { readFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { expect, test } from "vitest";

const ROOT = resolve(import.meta.dirname, "../..");
const english = readFileSync(join(ROOT, "README.md"), "utf8");
const chinese = readFileSync(join(ROOT, "README.zh.md"), "utf8");

test("both READMEs have the same commands", () => {
  expect(commandsOf(english).length).toBeGreaterThan(10);
  expect(commandsOf(chinese)).toEqual(commandsOf(english));
});

test("both READMEs list the same options", () => {
  expect(optionsOf(english)).toContain("--data DIR");
  expect(optionsOf(chinese)).toEqual(optionsOf(english));
});

test("they name each other", () => {
  expect(english).toContain("(README.zh.md)");
  expect(chinese).toContain("(README.md)");
});

/** Lines of the fenced blocks, without the comments, which are in the reader's language. */
function commandsOf(page: string): string[] {
  return [...page.matchAll(/^```sh\n([\s\S]*?)^```$/gm)].flatMap(([, block = ""]) =>
    block
      .split("\n")
      .map((line) => line.replace(/\s+#.*$/, "").trim())
      .filter((line) => line !== ""),
  );
}

function optionsOf(page: string): string[] {
  return [...page.matchAll(/^\| `(--[^`]+)`/gm)].map(([, option = ""]) => option);
}
