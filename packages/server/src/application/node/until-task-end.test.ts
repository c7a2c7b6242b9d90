import { expect, test } from "vitest";
import type { NodeView } from "@gpve/domain/node/runtime.ts";
import { FakeClock } from "@gpve/kit/testing/fake-clock.ts";
import { untilTaskEnd } from "./until-task-end.ts";

function world() {
  const clock = new FakeClock(0);
  const seen = { health: "online" as NodeView["health"] };
  const board = { get: () => ({ health: seen.health }) as NodeView };
  let end: () => void = () => undefined;
  const taskEnd = (_upid: string, signal: AbortSignal): Promise<void> =>
    new Promise((resolve, reject) => {
      end = resolve;
      signal.addEventListener("abort", () => reject(new Error("stopped")));
    });
  const { signal } = new AbortController();
  const waiting = untilTaskEnd({ board, clock, taskEnd }, { node: "a", upid: "UPID:a", signal });
  let outcome = "";
  waiting.then(
    () => (outcome = "ended"),
    (err: unknown) => (outcome = String(err)),
  );
  const pass = async (seconds: number): Promise<string> => {
    for (let at = 0; at < seconds * 2; at++) await clock.advance(500);
    return outcome;
  };
  return { seen, pass, end: () => end() };
}

test("a node that is away for a moment is waited for", async () => {
  const { seen, pass, end } = world();
  for (let round = 0; round < 3; round++) {
    seen.health = "offline";
    expect(await pass(15)).toBe("");
    seen.health = "online";
    expect(await pass(1)).toBe("");
  }
  end();
  expect(await pass(1)).toBe("ended");
});

test("one that stays away is not", async () => {
  const { seen, pass } = world();
  seen.health = "offline";
  expect(await pass(21)).toContain("node 'a' is not online");
});
