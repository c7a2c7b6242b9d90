import { readFileSync } from "node:fs";
import { describe, expect, test } from "vitest";
import { helpOf, overview } from "./command-help.ts";

describe("help of the launcher's commands", () => {
  test("names every command", () => {
    const source = readFileSync(new URL("program.ts", import.meta.url), "utf8");
    const named = [...source.matchAll(/^ {2}"?([\w-]+)"?: async \(\) =>/gm)].map((found) => found[1] ?? "");
    const shown = [...overview().matchAll(/^ {2}([\w-]+) {2,}\S/gm)].map((found) => found[1]);
    expect(named).toContain("pve-commands");
    expect(shown).toEqual(expect.arrayContaining(named));
    expect(overview()).toMatch(/^ {2}up +start server and agent/m);
    expect(overview()).toContain("./gpve COMMAND --help");
  });

  test.each(["up", "down", "status", "server", "agent"])("of %s has every option it takes", (name) => {
    const source = readFileSync(new URL(`commands/${name}.ts`, import.meta.url), "utf8");
    const taken = /commandOptions\("\w+", args, \{([\s\S]*?)\}\);/.exec(source)?.[1] ?? "";
    const names = [...taken.matchAll(/"?([\w-]+)"?: \{ type/g)].map((found) => `--${found[1] ?? ""}`);
    const shown = [...(helpOf(name) ?? "").matchAll(/^ {2}(--[\w-]+)/gm)].map((found) => found[1] ?? "");
    expect(shown.toSorted()).toEqual(names.toSorted());
  });

  test("is there for every command, so that none begins its work when it is asked for it", () => {
    const names = [...overview().matchAll(/^ {2}([\w-]+) {2,}\S/gm)].map(([, name = ""]) => name);
    expect(names.filter((name) => helpOf(name) === undefined)).toEqual(["ctl"]);
    expect(helpOf("vc-store")).toMatch(/^Usage: .\/gpve vc-store \.\.\.\n\nkeep the records/);
  });

  test("is none for what has its own", () => {
    expect([helpOf("ctl"), helpOf("nope")]).toEqual([undefined, undefined]);
  });
});
