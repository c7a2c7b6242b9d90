import { expect, test } from "vitest";
import { requireRules } from "./require-rules.ts";

const known = { nodes: ["n1", "n2"], services: new Set(["vm:1"]) };

test("rules as PVE writes them are taken", () => {
  const text =
    "# where it belongs\nnode-affinity: home\n\tresources vm:1\n\tnodes n1:2,n2\n\tstrict 1\n\tdisable\n";
  expect(requireRules(text, known)).toEqual([]);
  expect(requireRules(text.replace("\tdisable\n", ""), known)).toMatchObject([{ id: "home", strict: true }]);
});

test.each([
  ["node-affinty: a", "line 1 begins with 'node-affinty'; known are node-affinity and"],
  ["node-affinity a", "line 1 is neither"],
  ["  nodes n1", "line 1 is neither"],
  ["node-affinity: a\n  node n1", "line 2 has no 'node'; a rule of node-affinity knows resources, nodes"],
  ["node-affinity: a\n  nodes n9", "line 2 names the node 'n9'"],
  ["node-affinity: a\n  nodes n1:high", "line 2 has 'n1:high'"],
  ["node-affinity: a\n  nodes n1", "'a' needs resources"],
  ["resource-affinity: a\n  resources vm:1,vm:2", "line 2 names the service 'vm:2'"],
  ["resource-affinity: a\n  affinity apart", "line 2 must be 'affinity positive'"],
  [
    "node-affinity: a\n  nodes n1\n  resources vm:1\n\nnode-affinity: a\n  nodes n2\n  resources vm:1",
    "'a' is there twice",
  ],
])("a slip of the pen is named: %j", (text, why) => {
  expect(() => requireRules(text, known)).toThrow(`rules: ${why}`);
});
