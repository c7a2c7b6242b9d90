import { describe, expect, test } from "vitest";
import { nextReplacement, REPLACED_AFTER_MS, type SeenReplica } from "./replacement-plan.ts";

const well = (node: string): SeenReplica => ({ node, state: "well", forMs: 0 });
const lost = (node: string, forMs = REPLACED_AFTER_MS): SeenReplica => ({ node, state: "lost", forMs });

describe("replacing replicas", () => {
  test("a lost one goes to a node that has none, and waits for one where there is none", () => {
    expect(nextReplacement([well("a"), well("b"), lost("c")], ["d", "e"])).toEqual({ lost: "c", by: "d" });
    expect(nextReplacement([well("a"), well("b"), lost("c")], [])).toBeUndefined();
  });

  test("nothing is done for one that may come back, nor while all are well", () => {
    expect(nextReplacement([well("a"), well("b"), lost("c", REPLACED_AFTER_MS - 1)], ["d"])).toBeUndefined();
    expect(nextReplacement([well("a"), well("b"), well("c")], ["d"])).toBeUndefined();
    expect(nextReplacement([well("a"), well("b"), { ...lost("c"), state: "busy" }], ["d"])).toBeUndefined();
  });

  test("nothing is done without a majority, which alone could take somebody in", () => {
    expect(nextReplacement([well("a"), lost("b"), lost("c")], ["d"])).toBeUndefined();
    expect(nextReplacement([lost("a"), lost("b"), lost("c")], ["d"])).toBeUndefined();
  });

  test("a node that has come back with nothing gets its replica anew", () => {
    const empty: SeenReplica = { node: "c", state: "missing", forMs: REPLACED_AFTER_MS };
    expect(nextReplacement([well("a"), well("b"), empty], ["d"])).toEqual({ lost: "c", by: "c" });
  });
});
