import { describe, expect, it } from "vitest";
import { FakeClock } from "../testing/fake-clock.ts";
import { MemoryJournal } from "../testing/memory-journal.ts";
import { testEngine } from "../testing/operation-engine.ts";
import type { OperationDefinition } from "./definition.ts";

const joe = "joe@pve";
const quick = (type: string): OperationDefinition => ({ type, steps: [{ name: "work", run: () => {} }] });

describe("the engine", () => {
  it("keeps no more than it should between two rounds either, and of what ended only what readers ask for", async () => {
    const { engine } = testEngine({ clock: new FakeClock(), keepCount: 20 });
    engine.register({
      ...quick("wordy"),
      initialState: () => ({ text: "x".repeat(10_000) }),
    });
    await engine.start();
    for (let n = 0; n < 100; n++) {
      const { upid } = await engine.submit({ type: "wordy", resources: [], actor: joe });
      await engine.wait(upid);
    }
    const kept = [...engine.list()];
    expect(kept.length).toBeLessThanOrEqual(23);
    expect(kept.map(({ data }) => data)).toEqual(kept.map(() => ({})));
    await engine.stop();
  });

  it("forgets old operations with their logs and request ids, never unfinished ones", async () => {
    const clock = new FakeClock();
    const removed: string[] = [];
    const journal = new MemoryJournal();
    const options = { clock, journal, keepCount: 2, keepMs: 3_600_000 };
    const { engine, logs } = testEngine(options);
    const definition = quick("quick");
    engine.register(definition);
    await engine.start();
    engine.observe((event) => {
      if (event.kind === "removed") removed.push(event.operation.id);
    });
    const request = { type: "quick", resources: [], actor: joe };
    const ids: string[] = [];
    for (let n = 0; n < 4; n++) {
      const { upid } = await engine.submit({ ...request, requestId: `r${n}` });
      ids.push(upid);
      await engine.wait(upid);
      await clock.advance(1_000);
    }
    await clock.advance(600_000);
    ids.push((await engine.submit(request)).upid);
    await clock.advance(0);
    expect(removed.toSorted()).toEqual(ids.slice(0, 3));
    expect(logs.lines.has(ids[0] ?? "")).toBe(false);
    expect((await engine.submit({ ...request, requestId: "r0" })).isRepeated).toBe(false);
    await engine.stop();
    expect(journal.disk.lastSequence).toBe(6);

    await clock.advance(7_200_000);
    const later = testEngine({ ...options, journal: new MemoryJournal(journal.disk) });
    later.engine.register(definition);
    await later.engine.start();
    expect([...later.engine.list()]).toEqual([]);
    expect((await later.engine.submit(request)).upid).toContain("T:7:");
    await later.engine.stop();
  });
});
