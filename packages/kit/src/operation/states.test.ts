import { readFileSync } from "node:fs";
import { expect, it } from "vitest";
import { operationStates, operationStatesPage } from "./states.ts";

const page = new URL("../../../../docs/reference/operation-states.md", import.meta.url);

it("the reference page shows the table", () => {
  // After a change: npx vitest run packages/kit/src/operation/states.test.ts shows the text to paste.
  expect(readFileSync(page, "utf8")).toBe(operationStatesPage());
});

it("every state leads to an end and final states lead nowhere", () => {
  for (const [name, state] of Object.entries(operationStates)) {
    const next = Object.keys(state.to);
    expect(next.length === 0, name).toBe(state.ends);
    for (const to of next) expect(Object.keys(operationStates)).toContain(to);
  }
});
