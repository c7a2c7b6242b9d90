import { setImmediate as tick } from "node:timers/promises";
import { describe, expect, it } from "vitest";
import { testEngine } from "../testing/operation-engine.ts";

describe("the end", () => {
  it("is shown when those who must know of the effect have been told, whatever the outcome", async () => {
    let told = Promise.withResolvers<void>();
    const { engine, logs } = testEngine({ beforeEnd: () => told.promise });
    engine.register({ type: "work", steps: [{ name: "work", run: () => undefined }] });
    engine.register({
      type: "break",
      steps: [{ name: "work", run: () => Promise.reject(new Error("broken")) }],
    });
    await engine.start();
    for (const [type, state] of [
      ["work", "done"],
      ["break", "failed"],
    ] as const) {
      const { upid } = await engine.submit({ type, resources: ["vm/1"], actor: "joe@pve" });
      for (let turn = 0; turn < 20; turn++) await tick();
      expect(engine.get(upid)?.endedAt).toBeUndefined();
      expect((logs.lines.get(upid) ?? []).join()).not.toContain("TASK");
      told.resolve();
      expect(await engine.wait(upid)).toMatchObject({ state });
      told = Promise.withResolvers<void>();
    }
    await engine.stop();
  });
});
