import { testEngine } from "@gpve/kit/testing/operation-engine.ts";
import { expect, test } from "vitest";
import { stopBeforePower } from "./stop-before-power.ts";

test("waits until all guests of the node are shut down, and says when they could not be", async () => {
  const { engine } = testEngine();
  const stopped = Promise.withResolvers<void>();
  const done: string[] = [];
  engine.register({
    type: "stopall",
    steps: [{ name: "all", run: () => stopped.promise }],
    onCrash: "resume",
  });
  await engine.start();
  const first = stopBeforePower(engine, "n1").then(() => done.push("first"));
  expect(done).toEqual([]);
  stopped.resolve();
  await first;
  expect(done).toEqual(["first"]);
  await engine.stop();
  const { engine: other } = testEngine();
  const fails = (): Promise<void> => Promise.reject(new Error("no records"));
  other.register({ type: "stopall", steps: [{ name: "all", run: fails }], onCrash: "resume" });
  await other.start();
  await expect(stopBeforePower(other, "n1")).rejects.toThrow("no records");
  await other.stop();
});

test("waits no longer than a machine may be kept", async () => {
  const { engine } = testEngine();
  const hangs = (): Promise<void> => new Promise(() => undefined);
  engine.register({ type: "stopall", steps: [{ name: "all", run: hangs }], onCrash: "resume" });
  await engine.start();
  await expect(stopBeforePower(engine, "n1", 20)).rejects.toThrow();
});
