import { describe, expect, test } from "vitest";
import type { CommandShape } from "./command-shape.ts";
import { readOptions } from "./read-options.ts";

const shape: CommandShape = {
  args: ["vmid", "storage"],
  isList: false,
  parameters: {
    vmid: { type: "integer" },
    storage: { type: "string", optional: true },
    force: { type: "boolean", optional: true },
    "net[n]": { type: "string", indexRange: [0, 31], optional: true },
    nodes: { type: "string", format: "pve-node-list", optional: true },
    command: { type: "array", items: { type: "string" }, optional: true },
    memory: { type: "string", optional: true },
    memhot: { type: "string", optional: true },
    password: { type: "string", optional: true },
  },
  formats: false,
  returns: { type: "null" },
  asked: new Set(["password"]),
};

describe("words of a command line", () => {
  test.each([
    [["100", "local"], { vmid: "100", storage: "local" }],
    [["100"], { vmid: "100" }],
    [["--force", "100"], undefined],
    [["100", "--force"], { vmid: "100", force: "1" }],
    [["100", "-force", "no"], { vmid: "100", force: "0" }],
    [["100", "--force", "--memory", "5"], { vmid: "100", force: "1", memory: "5" }],
    [["--net0", "virtio,bridge=vmbr0", "100"], { vmid: "100", net0: "virtio,bridge=vmbr0" }],
    [["--net0=a=b", "100"], { vmid: "100", net0: "a=b" }],
    [["--memory", "-1", "100"], { vmid: "100", memory: "-1" }],
    [["100", "--nodes", "a", "--nodes", "b,c"], { vmid: "100", nodes: "a,b,c" }],
    [["100", "--command", "a", "--command", "b"], { vmid: "100", command: ["a", "b"] }],
    [["100", "--FORCE", "--sto", "x"], { vmid: "100", force: "1", storage: "x" }],
    [["100", "--", "--force"], { vmid: "100", storage: "--force" }],
    [["100", "--password"], { vmid: "100", password: "" }],
  ])("%j", (words, expected) => {
    if (expected === undefined) expect(() => readOptions(words, shape)).toThrow();
    else expect(readOptions(words, shape)).toEqual(expected);
  });

  test.each([
    [[], "not enough arguments", undefined],
    [["1", "2", "3"], "too many arguments", undefined],
    [["1", "--bogus", "2"], "unable to parse option", "Unknown option: bogus"],
    [["1", "--net32", "2"], "unable to parse option", "Unknown option: net32"],
    [["1", "--memory"], "unable to parse option", "Option memory requires an argument"],
    [["1", "--mem", "2"], "unable to parse option", "Option mem is ambiguous (memhot, memory)"],
    [["1", "--force", "maybe"], "unable to parse boolean option", undefined],
  ])("%j is refused", (words, message, complaint) => {
    let err: unknown;
    try {
      readOptions(words, shape);
    } catch (caught) {
      err = caught;
    }
    expect(err).toMatchObject({ message, pveStatus: 400 });
    expect((err as { data: { complaint?: string } }).data.complaint).toBe(complaint);
  });

  test("the last argument may take all words that are left", () => {
    const list = { ...shape, args: ["nodes"], isList: true };
    expect(readOptions(["a", "b", "--force"], list)).toEqual({ nodes: "a,b", force: "1" });
    expect(readOptions([], list)).toEqual({});
    const exec = { ...shape, args: ["vmid", "command"], isList: true };
    expect(readOptions(["100", "--", "ls", "-l"], exec)).toEqual({ vmid: "100", command: ["ls", "-l"] });
  });
});
