import { describe, expect, test } from "vitest";
import { compileRules, crowdedApart } from "./compile-rules.ts";
import { parseRules, rulesFromGroups } from "./rules.ts";

const nodes = ["n1", "n2", "n3"];
const home = (id: string, sids: string, on: string, strict = 1) =>
  `node-affinity: ${id}\n\tresources ${sids}\n\tnodes ${on}\n\tstrict ${strict}\n`;
const tie = (id: string, sids: string, affinity: string) =>
  `resource-affinity: ${id}\n\tresources ${sids}\n\taffinity ${affinity}\n`;
const compile = (...texts: readonly string[]) => compileRules(parseRules(texts.join("\n")), nodes);
const droppedOf = (...texts: readonly string[]) =>
  compile(...texts)
    .dropped.map(({ id }) => id)
    .toSorted();

test("rules are read, disabled and unknown ones left out", () => {
  const rules = parseRules(
    [
      "# a comment",
      home("a", "vm:2,vm:1", "n1:2,n2"),
      `${tie("b", "vm:1", "sideways")}`,
      "other: c\n\tkey value",
      `${tie("d", "vm:1,vm:2", "negative")}\tdisable`,
    ].join("\n"),
  );
  expect(rules).toEqual([
    {
      type: "node-affinity",
      id: "a",
      resources: ["vm:1", "vm:2"],
      nodes: new Map([
        ["n1", 2],
        ["n2", 0],
      ]),
      strict: true,
    },
  ]);
});

test("a group becomes a rule for its members and may forbid failback", () => {
  const text = "group: g\n\tnodes n1:2,n2\n\trestricted 1\n\tnofailback 1\n\ngroup: empty\n\tnodes n1\n";
  const { rules, withoutFailback } = rulesFromGroups(text, new Map([["g", ["vm:1"]]]));
  expect(rules.map(({ id }) => id)).toEqual(["ha-group-g"]);
  expect(withoutFailback).toEqual(new Set(["vm:1"]));
});

describe("of rules that contradict each other both sides are dropped:", () => {
  test.each([
    ["two homes for one service", [home("a", "vm:1", "n1"), home("b", "vm:1", "n2")], ["a", "b"]],
    ["alone", [tie("a", "vm:1", "positive")], ["a"]],
    ["alone, said twice", [tie("a", "vm:1,vm:1", "negative")], ["a"]],
    ["more to keep apart than nodes", [tie("a", "vm:1,vm:2,vm:3,vm:4", "negative")], ["a"]],
    [
      "together and apart",
      [tie("a", "vm:1,vm:2", "positive"), tie("b", "vm:1,vm:2", "negative")],
      ["a", "b"],
    ],
    ["priorities and ties", [home("a", "vm:1", "n1:1,n2:2"), tie("b", "vm:1,vm:2", "positive")], ["a", "b"]],
    [
      "together in two homes",
      [home("a", "vm:1", "n1"), home("b", "vm:2", "n2"), tie("c", "vm:1,vm:2", "positive")],
      ["a", "b", "c"],
    ],
    [
      "ties to a home with priorities, and to one without",
      [home("a", "vm:1", "n1:1,n2:2"), home("b", "vm:2", "n1"), tie("c", "vm:1,vm:2", "negative")],
      ["a", "b", "c"],
    ],
    [
      "with a rule that is dropped itself",
      [home("a", "vm:1", "n1"), home("b", "vm:1", "n2"), tie("c", "vm:1,vm:2", "positive")],
      ["a", "a", "b", "b", "c"],
    ],
    [
      "apart in one home",
      [home("a", "vm:1", "n1"), home("b", "vm:2", "n1"), tie("c", "vm:1,vm:2", "negative")],
      ["a", "b", "c"],
    ],
  ])("%s", (_what, texts, dropped) => {
    expect(droppedOf(...texts)).toEqual(dropped);
  });
});

test("those who must be apart need a node each, whichever they may be on", () => {
  const crowded = (...texts: readonly string[]) => crowdedApart(parseRules(texts.join("\n")), nodes);
  const apart = tie("apart", "vm:1,vm:2,vm:3", "negative");
  expect(
    crowded(apart, home("a", "vm:1", "n1"), home("b", "vm:2", "n1"), home("c", "vm:3", "n2,n3")),
  ).toEqual({
    resources: ["vm:1", "vm:2"],
    nodes: ["n1"],
  });
  // Who came first takes another one of its nodes.
  expect(crowded(apart, home("a", "vm:1", "n1,n2"), home("b", "vm:2", "n1"))).toBeUndefined();
  expect(crowded(apart, home("a", "vm:1,vm:2", "n1,n2"), home("b", "vm:3", "n1,n2,n3"))).toBeUndefined();
  // Preferred is not strict, and who is tied to another lives where that one does.
  expect(crowded(apart, home("a", "vm:1", "n1", 0), home("b", "vm:2", "n1"))).toBeUndefined();
  expect(
    crowded(apart, home("a", "vm:1", "n1"), home("b", "vm:9", "n1"), tie("t", "vm:9,vm:2", "positive")),
  ).toEqual({ resources: ["vm:1", "vm:2"], nodes: ["n1"] });
});

test("who is tied to a service shares its home and its enemies", () => {
  const { together, apart, nodeAffinity, dropped } = compile(
    home("a", "vm:1", "n1"),
    tie("b", "vm:1,vm:2", "positive"),
    tie("c", "vm:2,vm:3", "positive"),
    tie("d", "vm:3,vm:4", "negative"),
  );
  expect(dropped).toEqual([]);
  expect(together.get("vm:1")).toEqual(new Set(["vm:2", "vm:3"]));
  expect(apart.get("vm:4")).toEqual(new Set(["vm:1", "vm:2", "vm:3"]));
  expect(nodeAffinity.get("vm:3")?.id).toBe("a");
});
