import { expect, test } from "vitest";
import type { HaEnvironment } from "./environment.ts";
import { NodeStates } from "./node-states.ts";

test("a node that is no member any more is gone, and forgotten an hour later", () => {
  let now = 0;
  const env = { now: () => now, log: () => undefined, localStatus: () => undefined };
  const nodes = new NodeStates(env as unknown as HaEnvironment, { n1: "online", n2: "online" });
  const members = new Map([["n1", true]]);
  nodes.update(members);
  expect(nodes.toRecord()).toEqual({ n1: "online", n2: "gone" });
  for (now = 20; now < 3_600; now += 20) nodes.update(members);
  expect(nodes.of("n2")).toBe("gone");
  now = 3_620;
  nodes.update(members);
  expect(nodes.toRecord()).toEqual({ n1: "online" });
});
