import { expect, test } from "vitest";
import { evidenceCollection, localCollection } from "@gpve/domain/ha/collections.ts";
import { agentKeyRules } from "./agent-key-rules.ts";

const accepts = (prefix: string, id: string, value: object): boolean => {
  const rule = agentKeyRules("n2", () => 0).values.find((each) => each.prefix === prefix);
  return rule?.accepts(Buffer.from(JSON.stringify(value)), id) === true;
};

test("a node writes of HA only what servers can show, and in its own name", () => {
  const evidence = { at: 1, by: "n2", role: "local", lines: [{ level: "info", text: "x" }] };
  const writes = (value: object): boolean => accepts(evidenceCollection.prefix, "n2/1", value);
  expect(writes(evidence)).toBe(true);
  expect(writes({ ...evidence, by: "n3" })).toBe(false);
  expect(writes({ by: "n2" })).toBe(false);
  expect(writes({ ...evidence, at: 9e15 })).toBe(false);
  const status = { state: "active", mode: "active", guarded: true, results: {} };
  expect(accepts(localCollection.prefix, "n2/status", status)).toBe(true);
  expect(accepts(localCollection.prefix, "n2/status", { ...status, results: { a: null } })).toBe(false);
});
