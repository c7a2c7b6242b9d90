import { setImmediate as tick } from "node:timers/promises";
import { expect, it } from "vitest";
import { FakeClock } from "../testing/fake-clock.ts";
import { JournalDisk, MemoryJournal } from "../testing/memory-journal.ts";
import { MemoryTaskLogs } from "../testing/memory-task-logs.ts";
import { testEngine } from "../testing/operation-engine.ts";
import type { OperationDefinition, Step } from "./definition.ts";
import type { CrashPoint } from "./ports.ts";

const joe = "joe@pve";

/** Dies at a point, as kill -9 does: nothing is written or answered afterwards. */
function dying(disk: JournalDisk, at: (point: CrashPoint) => boolean) {
  const journal = new MemoryJournal(disk);
  const { promise, resolve } = Promise.withResolvers<void>();
  const crash = {
    hit: (point: CrashPoint) => {
      if (!at(point)) return undefined;
      journal.die();
      resolve();
      return new Promise<void>(() => {});
    },
  };
  return { journal, crash, died: promise };
}

function traced(trace: string[], name: string): Step {
  return { name, run: () => void trace.push(name), undo: () => void trace.push(`-${name}`) };
}

it("undoes an operation that a crash cut off, then runs what waited, in order", async () => {
  const disk = new JournalDisk();
  const trace: string[] = [];
  const definitions: OperationDefinition[] = [
    { type: "cut", steps: ["a", "b", "c"].map((name) => traced(trace, name)) },
    ...["x", "y"].map((type) => ({ type, steps: [traced(trace, type)] })),
  ];
  const { journal, crash, died } = dying(disk, (p) => p.phase === "after-run" && p.step === "b");
  const first = testEngine({ journal, crash });
  for (const definition of definitions) first.engine.register(definition);
  await first.engine.start();
  for (const type of ["cut", "x", "y"]) await first.engine.submit({ type, resources: ["vm/1"], actor: joe });
  await died;

  const second = testEngine({ journal: new MemoryJournal(disk) });
  for (const definition of definitions) second.engine.register(definition);
  await second.engine.start();
  const ids = [...second.engine.list()].map(({ id }) => id);
  const ended = await Promise.all(ids.map((id) => second.engine.wait(id)));
  expect(ended.map(({ state }) => state)).toEqual(["failed", "done", "done"]);
  expect(ended[0]?.exitStatus).toBe("interrupted by a restart, all changes were undone");
  expect(trace).toEqual(["a", "b", "-b", "-a", "x", "y"]);
  await second.engine.stop();
});

it("resumes at the step that was running when the definition says so", async () => {
  const disk = new JournalDisk();
  const trace: string[] = [];
  const definition: OperationDefinition = {
    type: "resumable",
    onCrash: "resume",
    steps: ["a", "b", "c"].map((name) => traced(trace, name)),
  };
  const { journal, crash, died } = dying(disk, (p) => p.phase === "after-run" && p.step === "b");
  const first = testEngine({ journal, crash });
  first.engine.register(definition);
  await first.engine.start();
  const { upid } = await first.engine.submit({ type: "resumable", resources: [], actor: joe });
  await died;
  const second = testEngine({ journal: new MemoryJournal(disk) });
  second.engine.register(definition);
  await second.engine.start();
  expect((await second.engine.wait(upid)).state).toBe("done");
  expect(trace).toEqual(["a", "b", "b", "c"]);
  await second.engine.stop();
});

it("ends as cancelled what was cancelled before the crash, even if it could resume", async () => {
  const disk = new JournalDisk();
  const { journal, crash, died } = dying(disk, (p) => p.phase === "before-undo");
  const undone: string[] = [];
  const definition: OperationDefinition = {
    type: "resumable",
    onCrash: "resume",
    steps: [
      {
        name: "a",
        run: (ctx) =>
          new Promise((_, reject) => ctx.signal.addEventListener("abort", () => reject(new Error("x")))),
        undo: () => void undone.push("a"),
      },
    ],
  };
  const first = testEngine({ journal, crash });
  first.engine.register(definition);
  await first.engine.start();
  const { upid } = await first.engine.submit({ type: "resumable", resources: [], actor: joe });
  await first.engine.cancel(upid, joe);
  await died;
  const second = testEngine({ journal: new MemoryJournal(disk) });
  second.engine.register(definition);
  await second.engine.start();
  expect((await second.engine.wait(upid)).state).toBe("cancelled");
  expect(undone).toEqual(["a"]);
  await second.engine.stop();
});

it("writes the last log line that a crash just after the end kept back", async () => {
  const disk = new JournalDisk();
  const logs = new MemoryTaskLogs();
  const definition: OperationDefinition = { type: "quick", steps: [{ name: "a", run: () => {} }] };
  const { journal, crash, died } = dying(disk, (p) => p.phase === "after-finish");
  const first = testEngine({ journal, crash, logs });
  first.engine.register(definition);
  await first.engine.start();
  const { upid } = await first.engine.submit({ type: "quick", resources: [], actor: joe });
  await died;
  expect(logs.lines.get(upid)).toBeUndefined();
  const second = testEngine({ journal: new MemoryJournal(disk), logs });
  second.engine.register(definition);
  await second.engine.start();
  expect(second.engine.get(upid)?.state).toBe("done");
  expect(logs.lines.get(upid)).toEqual(["TASK OK"]);
  await second.engine.stop();
});

it("ends operations of types that are no longer known, and names what could not be undone", async () => {
  const disk = new JournalDisk();
  const definitions = ["old", "fickle"].map((type): OperationDefinition => ({
    type,
    steps: [{ name: "a", run: () => new Promise(() => {}), undo: () => {} }],
  }));
  const journal = new MemoryJournal(disk);
  const first = testEngine({ journal });
  for (const definition of definitions) first.engine.register(definition);
  await first.engine.start();
  const cut = await first.engine.submit({ type: "old", resources: ["x"], actor: joe });
  const queued = await first.engine.submit({ type: "old", resources: ["x"], actor: joe });
  const fickle = await first.engine.submit({ type: "fickle", resources: ["y"], actor: joe });
  await tick();
  journal.die();
  const second = testEngine({ journal: new MemoryJournal(disk) });
  second.engine.register({
    type: "fickle",
    plan: () => {
      throw new Error("changed its mind");
    },
  });
  await second.engine.start();
  for (const { upid } of [cut, queued])
    expect((await second.engine.wait(upid)).exitStatus).toContain("unknown operation type 'old'");
  expect(await second.engine.wait(fickle.upid)).toMatchObject({
    state: "failed",
    steps: [{ name: "a", state: "undoFailed", undoError: "changed its mind" }],
  });
  await second.engine.stop();
});

it("stops in good order between steps and carries on afterwards, whatever onCrash says", async () => {
  const disk = new JournalDisk();
  const trace: string[] = [];
  const { promise, resolve } = Promise.withResolvers<void>();
  const definition: OperationDefinition = {
    type: "steady",
    steps: [
      { name: "a", run: () => promise.then(() => void trace.push("a")), undo: () => void trace.push("-a") },
      { name: "b", run: () => void trace.push("b") },
    ],
  };
  const first = testEngine({ journal: new MemoryJournal(disk) });
  first.engine.register(definition);
  await first.engine.start();
  const { upid } = await first.engine.submit({ type: "steady", resources: ["x"], actor: joe });
  const waiting = await first.engine.submit({ type: "steady", resources: ["x"], actor: joe });
  await tick();
  const stopped = first.engine.stop();
  resolve();
  await stopped;
  await expect(first.engine.submit({ type: "steady", resources: [], actor: joe })).rejects.toMatchObject({
    code: "store.unavailable",
  });
  expect(trace).toEqual(["a"]);
  const second = testEngine({ journal: new MemoryJournal(disk) });
  second.engine.register(definition);
  await second.engine.start();
  expect((await second.engine.wait(upid)).state).toBe("done");
  expect((await second.engine.wait(waiting.upid)).state).toBe("done");
  expect(trace).toEqual(["a", "b", "a", "b"]);
  await second.engine.stop();
});

it("tries again when the journal cannot be written, and no step runs before it is", async () => {
  const clock = new FakeClock();
  let runs = 0;
  const { engine, journal } = testEngine({ clock });
  engine.register({ type: "patient", steps: [{ name: "a", run: () => void (runs += 1) }] });
  engine.register({
    type: "blocker",
    steps: [
      {
        name: "a",
        run: () => void journal.failures.push(...Array.from({ length: 7 }, () => new Error("full"))),
      },
    ],
  });
  await engine.start();
  const blocker = await engine.submit({ type: "blocker", resources: ["x"], actor: joe });
  const { upid } = await engine.submit({ type: "patient", resources: ["x"], actor: joe });
  await tick();
  expect(engine.get(blocker.upid)?.state).toBe("running");
  expect(runs).toBe(0);
  await clock.advance(20_000);
  expect(engine.get(blocker.upid)?.state).toBe("done");
  expect((await engine.wait(upid)).state).toBe("done");
  expect(runs).toBe(1);
  await engine.stop();
});

it("stops at once when the claim is lost, takes it again when it can, and finishes what it left", async () => {
  const clock = new FakeClock();
  const trace: string[] = [];
  const disk = new JournalDisk();
  const journal = new MemoryJournal(disk);
  const { engine } = testEngine({ journal, clock });
  let round = 0;
  engine.register({
    type: "long",
    onCrash: "resume",
    steps: [
      {
        name: "a",
        run: async (ctx) => {
          round += 1;
          trace.push(`run ${round}`);
          if (round === 1)
            await new Promise((_, reject) => {
              ctx.signal.addEventListener("abort", () => reject(new Error("aborted")));
            });
        },
        undo: () => void trace.push("undo"),
      },
    ],
  });
  await engine.start();
  const { upid } = await engine.submit({ type: "long", resources: ["x"], actor: joe });
  const ended = engine.wait(upid);
  await tick();
  const rival = new MemoryJournal(disk);
  journal.expire();
  const rivalSession = await rival.claim("rival", new AbortController().signal);
  const late = engine.submit({ type: "long", resources: ["x"], actor: joe }).catch((error: unknown) => error);
  await clock.advance(5_000);
  expect(await late).toMatchObject({ code: "store.unavailable" });
  expect(disk.list()[0]).toMatchObject({ state: "running" });
  await rivalSession.release();
  await clock.advance(2_000);
  expect((await ended).state).toBe("done");
  expect(trace).toEqual(["run 1", "run 2"]);
  await engine.stop();
  await engine.stop();
});

it("two processes never own one journal, and a stop gives up a claim that still waits", async () => {
  const disk = new JournalDisk();
  const first = testEngine({ journal: new MemoryJournal(disk), owner: "one" });
  await first.engine.start();
  await first.engine.start();
  const second = testEngine({ journal: new MemoryJournal(disk), owner: "two" });
  const starting = second.engine.start().catch((error: unknown) => error);
  await tick();
  await second.engine.stop();
  expect(await starting).toBeInstanceOf(Error);
  await first.engine.stop();
});

it("names steps of another version that it cannot undo", async () => {
  const disk = new JournalDisk();
  const trace: string[] = [];
  const journal = new MemoryJournal(disk);
  const first = testEngine({ journal });
  const hang: Step = { name: "hang", run: () => new Promise(() => {}) };
  first.engine.register({ type: "changed", steps: [traced(trace, "a"), traced(trace, "gone"), hang] });
  await first.engine.start();
  const { upid } = await first.engine.submit({ type: "changed", resources: [], actor: joe });
  await tick();
  journal.die();
  const second = testEngine({ journal: new MemoryJournal(disk) });
  second.engine.register({ type: "changed", steps: [traced(trace, "a"), hang] });
  await second.engine.start();
  expect((await second.engine.wait(upid)).steps).toMatchObject([
    { name: "a", state: "undone" },
    { name: "gone", state: "undoFailed", undoError: "this version has no such step" },
    { name: "hang", state: "undone" },
  ]);
  expect(trace).toEqual(["a", "gone", "-a"]);
  await second.engine.stop();
});

it("a step that does not listen cannot keep the process from ending", async () => {
  const clock = new FakeClock();
  const { engine, journal } = testEngine({ clock });
  engine.register({ type: "deaf", steps: [{ name: "a", run: () => new Promise(() => {}) }] });
  await engine.start();
  await engine.submit({ type: "deaf", resources: [], actor: joe });
  const stopped = engine.stop(1_000);
  await clock.advance(3_000);
  await stopped;
  expect(journal.disk.list()[0]?.state).toBe("running");
  expect(journal.disk.owner).toBeUndefined();
});

it("does not start on a journal that it cannot read, and leaves it to others", async () => {
  const disk = new JournalDisk();
  disk.records.set(1, "no JSON");
  const { engine } = testEngine({ journal: new MemoryJournal(disk) });
  await expect(engine.start()).rejects.toThrow("JSON");
  expect(disk.owner).toBeUndefined();
  await engine.stop();
});

it("tells its observers what another owner finished in the meantime", async () => {
  const clock = new FakeClock();
  const disk = new JournalDisk();
  const journal = new MemoryJournal(disk);
  const { engine } = testEngine({ journal, clock });
  engine.register({
    type: "long",
    steps: [
      {
        name: "a",
        run: (ctx) =>
          new Promise((_, reject) => ctx.signal.addEventListener("abort", () => reject(new Error("x")))),
      },
    ],
  });
  await engine.start();
  const { upid, operation } = await engine.submit({ type: "long", resources: [], actor: joe });
  const ended = engine.wait(upid);
  await tick();
  journal.expire();
  const rival = await new MemoryJournal(disk).claim("rival", new AbortController().signal);
  await clock.advance(1_000);
  const { progress: _progress, progressText: _text, ...record } = operation;
  await rival.write({ ...record, state: "done", exitStatus: "OK", endedAt: 5 });
  await rival.release();
  await clock.advance(2_000);
  expect((await ended).exitStatus).toBe("OK");
  await engine.stop();
});

it("claims again until it can", async () => {
  const clock = new FakeClock();
  const journal = new MemoryJournal();
  const { engine } = testEngine({ journal, clock });
  await engine.start();
  journal.disk.records.set(1, "no JSON");
  journal.expire();
  await clock.advance(3_000);
  journal.disk.records.clear();
  await clock.advance(1_000);
  expect(await engine.withResource("x", {}, () => "mine")).toBe("mine");
  await engine.stop();
});
