// Pages show commands to be typed. One that gpvectl does not know, or with an option that it has not, sends its reader away.
import { expect, test } from "vitest";
import { allCommands } from "@gpve/cli/commands.ts";
import { globalOptions } from "@gpve/cli/program.ts";
import { allFiles, read } from "./source-tree.ts";

const pages = ["README.md", "README.zh.md", ...allFiles("docs").filter((path) => path.endsWith(".md"))];

interface Shown {
  readonly page: string;
  readonly line: string;
  readonly words: readonly string[];
}

/** What stands after gpvectl in fenced blocks, one command a line, and in the text. */
function shownCommands(page: string): readonly Shown[] {
  const text = read(page);
  const blocks = [...text.matchAll(/^```\w*\n(.*?)^```$/gms)].map(([, block = ""]) => block);
  const inline = [...text.matchAll(/`(gpvectl [^`|]+)`/g)].map(([, command = ""]) => command);
  const lines = [...blocks.flatMap((block) => block.replaceAll(/\\\n\s*/g, " ").split("\n")), ...inline];
  return lines.flatMap((line) => {
    const typed = /^(?:\$ |# )?(?:sudo )?(?:gpvectl|\.\/gpve ctl) (.+)$/.exec(line.trim())?.[1];
    const [command = ""] = typed?.split(/\s+(?:#|\||>|<|&&|--(?=\s))\s*/) ?? [];
    return command === "" ? [] : [{ page, line, words: command.split(/\s+/) }];
  });
}

const flagsOf = (options: readonly { readonly flags: string }[]): readonly string[] =>
  options.flatMap(({ flags }) => flags.match(/(?<=^|[ ,])--?[\w-]+/g) ?? []);

/** The longest name that the words begin with. */
const commandOf = (words: readonly string[]) =>
  allCommands
    .filter(({ name }) => name.split(" ").every((word, at) => words[at] === word))
    .toSorted((a, b) => b.name.length - a.name.length)[0];

const shown = pages.flatMap(shownCommands).filter(({ words }) => !words[0]?.startsWith("-"));

test("pages name commands that there are", () => {
  expect(shown.length).toBeGreaterThan(100);
  const isNoun = (words: readonly string[]): boolean =>
    allCommands.some(({ name }) => name.startsWith(`${words.join(" ")} `));
  const unknown = shown.filter(
    ({ words }) => commandOf(words) === undefined && !isNoun(words) && !/^[[<]/.test(words[0] ?? ""),
  );
  expect(unknown.map(({ page, line }) => `${page}: ${line}`)).toEqual([]);
});

test("and options that these have", () => {
  const strange = shown.flatMap(({ page, line, words }) => {
    const command = commandOf(words);
    const known = [...flagsOf(command?.options ?? []), ...flagsOf(globalOptions), "--help"];
    const bad = words.filter((word) => /^--[a-z]/.test(word) && !known.includes(word.split("=")[0] ?? ""));
    return command === undefined || bad.length === 0 ? [] : [`${page}: ${line} (${bad.join(", ")})`];
  });
  expect(strange).toEqual([]);
});
