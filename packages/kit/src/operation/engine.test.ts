import { setImmediate as tick } from "node:timers/promises";
import { describe, expect, it } from "vitest";
import { FakeClock } from "../testing/fake-clock.ts";
import { MemoryJournal } from "../testing/memory-journal.ts";
import { testEngine } from "../testing/operation-engine.ts";
import type { OperationDefinition, StepContext } from "./definition.ts";
import type { OperationEvent } from "./ports.ts";

/** A step that runs until told to go on. */
function gate(): { readonly open: () => void; readonly passed: Promise<void> } {
  const { promise, resolve } = Promise.withResolvers<void>();
  return { open: resolve, passed: promise };
}

function untilAborted(signal: AbortSignal): Promise<never> {
  return new Promise((_, reject) => {
    signal.addEventListener("abort", () => reject(new Error("aborted")), { once: true });
  });
}

const simple = (type: string, run: (ctx: StepContext) => Promise<void> | void): OperationDefinition => ({
  type,
  steps: [{ name: "work", run }],
});

const joe = "joe@pve";

describe("running", () => {
  it("runs the steps in order, keeps their state and ends with OK", async () => {
    const seen: string[] = [];
    const { engine, journal, logs } = testEngine();
    engine.register<{ size: number }, { volume?: string }>({
      type: "make",
      steps: [
        {
          name: "allocate",
          run: async (ctx) => {
            ctx.state.volume = `vol-${ctx.args.size}`;
            ctx.log("allocated");
            await ctx.checkpoint();
          },
        },
        {
          name: "use",
          run: (ctx) => void seen.push(`${ctx.state.volume} ${ctx.actor} ${ctx.resources.join()}`),
        },
      ],
    });
    await engine.start();
    const { upid } = await engine.submit({
      type: "make",
      resources: ["vm/1"],
      args: { size: 3 },
      actor: joe,
      subject: "1",
    });
    const ended = await engine.wait(upid);
    expect(ended).toMatchObject({ state: "done", exitStatus: "OK", progress: 1 });
    expect(seen).toEqual(["vol-3 joe@pve vm/1"]);
    expect(logs.lines.get(upid)).toEqual(["allocated", "TASK OK"]);
    expect(journal.disk.list()[0]).toMatchObject({ state: "done", data: { volume: "vol-3" } });
    await engine.stop();
  });

  it("counts warnings into the exit status", async () => {
    const { engine, logs } = testEngine();
    engine.register(simple("warny", (ctx) => [1, 2].forEach((n) => ctx.warn(`thing ${n}`))));
    await engine.start();
    const { upid } = await engine.submit({ type: "warny", resources: [], actor: joe });
    expect((await engine.wait(upid)).exitStatus).toBe("WARNINGS: 2");
    expect(logs.lines.get(upid)).toEqual(["WARN: thing 1", "WARN: thing 2", "TASK WARNINGS: 2"]);
    await engine.stop();
  });

  it("undoes what had begun, last first, the failing step included", async () => {
    const undone: string[] = [];
    const step = (name: string, fail = false) => ({
      name,
      run: () => {
        if (fail) throw new Error("disk\nfull");
      },
      undo: () => void undone.push(name),
    });
    const { engine, logs } = testEngine();
    engine.register({ type: "bad", steps: [step("a"), step("b"), step("c", true), step("d")] });
    await engine.start();
    const { upid } = await engine.submit({ type: "bad", resources: ["x"], actor: joe });
    expect(await engine.wait(upid)).toMatchObject({ state: "failed", exitStatus: "disk full" });
    expect(undone).toEqual(["c", "b", "a"]);
    expect(logs.lines.get(upid)?.at(-1)).toBe("TASK ERROR: disk full");
    await engine.stop();
  });

  it("tries a failing undo again, then gives it up, says so, and frees the resource", async () => {
    let attempts = 0;
    const { engine, logs } = testEngine({ undoAttempts: 3 });
    engine.register({
      type: "stubborn",
      steps: [
        {
          name: "a",
          run: () => Promise.reject(new Error("no")),
          undo: () => {
            attempts += 1;
            throw new Error("still there");
          },
        },
      ],
    });
    engine.register(simple("next", () => {}));
    await engine.start();
    const { upid } = await engine.submit({ type: "stubborn", resources: ["x"], actor: joe });
    const next = await engine.submit({ type: "next", resources: ["x"], actor: joe });
    expect((await engine.wait(next.upid)).state).toBe("done");
    expect(attempts).toBe(3);
    expect(engine.get(upid)?.steps).toEqual([
      { name: "a", state: "undoFailed", undoAttempts: 3, undoError: "still there" },
    ]);
    expect(logs.lines.get(upid)).toContain("not undone, look after it by hand: a");
    await engine.stop();
  });

  it("plans steps from the arguments; a plan that throws fails the operation", async () => {
    const { engine } = testEngine();
    engine.register<{ n: number }, Record<string, unknown>>({
      type: "planned",
      plan: ({ n }) => {
        if (n < 0) throw new Error("less than nothing");
        return Array.from({ length: n }, (_, i) => ({ name: `s${i}`, run: () => {} }));
      },
    });
    await engine.start();
    const good = await engine.submit({ type: "planned", resources: [], args: { n: 3 }, actor: joe });
    const bad = await engine.submit({ type: "planned", resources: [], args: { n: -1 }, actor: joe });
    expect((await engine.wait(good.upid)).steps).toHaveLength(3);
    expect((await engine.wait(bad.upid)).exitStatus).toBe("less than nothing");
    await engine.stop();
  });

  it("shows progress by the weight of the steps", async () => {
    const seen: number[] = [];
    const { engine } = testEngine();
    engine.register({
      type: "slow",
      steps: [
        { name: "a", weight: 1, run: (ctx) => ctx.progress(1) },
        { name: "b", weight: 3, run: (ctx) => ctx.progress(0.5, "half") },
        { name: "c", weight: 0, run: (ctx) => ctx.progress(Number.NaN) },
      ],
    });
    await engine.start();
    engine.observe((event) => {
      if (event.kind === "progress") seen.push(event.operation.progress);
    });
    const { upid } = await engine.submit({ type: "slow", resources: [], actor: joe });
    await engine.wait(upid);
    expect(seen).toEqual([0.25, 0.625, 1]);
    await engine.stop();
  });

  it("refuses unknown types, oversized arguments and state, and waits for unknown ids", async () => {
    const { engine, journal } = testEngine();
    engine.register(
      simple("greedy", async (ctx) => {
        ctx.state["blob"] = "x".repeat(600_000);
        await ctx.checkpoint();
      }),
    );
    await engine.start();
    await expect(engine.submit({ type: "nope", resources: [], actor: joe })).rejects.toThrow(
      "unknown operation",
    );
    await expect(
      engine.submit({ type: "greedy", resources: [], args: { blob: "x".repeat(600_000) }, actor: joe }),
    ).rejects.toMatchObject({ code: "request.too_large" });
    expect(() => engine.wait("T:99")).toThrow("no such operation");
    await expect(engine.cancel("T:99", joe)).rejects.toThrow("no such operation");
    const { upid } = await engine.submit({ type: "greedy", resources: [], actor: joe });
    expect((await engine.wait(upid)).exitStatus).toContain("has 600");
    expect(journal.disk.list()).toHaveLength(1);
    await engine.stop();
  });
});

describe("definitions", () => {
  it("are refused when they contradict themselves", async () => {
    const { engine } = testEngine();
    const step = { name: "a", run: () => {} };
    engine.register({ type: "good", steps: [step] });
    expect(() => engine.register({ type: "good", steps: [step] })).toThrow("registered twice");
    expect(() => engine.register({ type: "empty" })).toThrow("needs either steps or a plan");
    expect(() => engine.register({ type: "both", steps: [step], plan: () => [step] })).toThrow(
      "needs either",
    );
    engine.register({ type: "twins", steps: [step, step] });
    await engine.start();
    const { upid } = await engine.submit({ type: "twins", resources: [], actor: joe });
    expect((await engine.wait(upid)).exitStatus).toContain("two steps of one name");
    await engine.stop();
  });
});

describe("queues", () => {
  it("runs hundreds on one resource in order and one at a time", async () => {
    const order: number[] = [];
    let inside = 0;
    const { engine } = testEngine();
    engine.register<{ n: number }, Record<string, unknown>>({
      type: "count",
      steps: [
        {
          name: "work",
          run: async (ctx) => {
            inside += 1;
            expect(inside).toBe(1);
            await tick();
            order.push(ctx.args.n);
            inside -= 1;
          },
        },
      ],
    });
    await engine.start();
    const all = await Promise.all(
      Array.from({ length: 300 }, (_, n) =>
        engine.submit({ type: "count", resources: ["vm/1"], args: { n }, actor: joe }),
      ),
    );
    await Promise.all(all.map(({ upid }) => engine.wait(upid)));
    expect(order).toEqual(Array.from({ length: 300 }, (_, n) => n));
    expect(new Set(all.map(({ upid }) => upid)).size).toBe(300);
    await engine.stop();
  });

  it("runs different resources side by side, up to the limit", async () => {
    let inside = 0;
    let most = 0;
    const { engine } = testEngine({ concurrency: 4 });
    engine.register(
      simple("busy", async () => {
        inside += 1;
        most = Math.max(most, inside);
        await tick();
        await tick();
        inside -= 1;
      }),
    );
    await engine.start();
    const all = await Promise.all(
      Array.from({ length: 20 }, (_, n) =>
        engine.submit({ type: "busy", resources: [`vm/${n}`], actor: joe }),
      ),
    );
    await Promise.all(all.map(({ upid }) => engine.wait(upid)));
    expect(most).toBe(4);
    await engine.stop();
  });

  it("an operation on two resources waits for both and blocks later ones on either", async () => {
    const first = gate();
    const order: string[] = [];
    const { engine } = testEngine();
    engine.register(simple("first", () => first.passed));
    for (const name of ["both", "late"]) engine.register(simple(name, () => void order.push(name)));
    await engine.start();
    await engine.submit({ type: "first", resources: ["a"], actor: joe });
    const both = await engine.submit({ type: "both", resources: ["b", "a", "b"], actor: joe });
    const late = await engine.submit({ type: "late", resources: ["b"], actor: joe });
    await tick();
    expect(order).toEqual([]);
    expect(engine.counts()).toEqual({ waiting: 2, running: 1 });
    first.open();
    await engine.wait(both.upid);
    await engine.wait(late.upid);
    expect(order).toEqual(["both", "late"]);
    await engine.stop();
  });
});

describe("request ids", () => {
  it("the same id gives the same operation, also when sent at once; other content is a conflict", async () => {
    let runs = 0;
    const { engine, journal } = testEngine();
    const definition = simple("once", () => void (runs += 1));
    engine.register(definition);
    await engine.start();
    const request = {
      type: "once",
      resources: ["x"],
      args: { b: [1, null], a: "y" },
      actor: joe,
      requestId: "r1",
    };
    const all = await Promise.all([engine.submit(request), engine.submit(request)]);
    const again = await engine.submit({ ...request, args: { a: "y", b: [1, null] } });
    expect(new Set([...all, again].map(({ upid }) => upid)).size).toBe(1);
    expect(again.isRepeated).toBe(true);
    await expect(engine.submit({ ...request, args: { a: "z" } })).rejects.toMatchObject({
      code: "object.conflict",
    });
    const other = await engine.submit({ ...request, actor: "ann@pve" });
    expect(other.isRepeated).toBe(false);
    await engine.wait(other.upid);
    await engine.stop();

    const later = testEngine({ journal: new MemoryJournal(journal.disk) });
    later.engine.register(definition);
    await later.engine.start();
    expect((await later.engine.submit(request)).upid).toBe(again.upid);
    expect(runs).toBe(2);
    await later.engine.stop();
  });

  it("a submit that could not be stored may be sent again", async () => {
    const { engine, journal } = testEngine();
    engine.register(simple("once", () => {}));
    await engine.start();
    journal.failures.push(new Error("disk full"));
    const request = { type: "once", resources: [], actor: joe, requestId: "r1" };
    await expect(engine.submit(request)).rejects.toThrow("disk full");
    expect((await engine.submit(request)).isRepeated).toBe(false);
    await engine.stop();
  });
});

describe("cancel and overtake", () => {
  it("ends a waiting operation at once and a running one by signal and undo", async () => {
    let undone = 0;
    const { engine, logs } = testEngine();
    engine.register({
      type: "long",
      steps: [{ name: "work", run: (ctx) => untilAborted(ctx.signal), undo: () => void (undone += 1) }],
    });
    await engine.start();
    const running = await engine.submit({ type: "long", resources: ["x"], actor: joe });
    const waiting = await engine.submit({ type: "long", resources: ["x"], actor: joe });
    expect(await engine.cancel(waiting.upid, "ann@pve")).toBe(true);
    expect(engine.get(waiting.upid)).toMatchObject({ state: "cancelled", exitStatus: "received interrupt" });
    expect(engine.get(running.upid)?.state).toBe("running");
    await engine.cancel(running.upid, "ann@pve");
    expect(await engine.wait(running.upid)).toMatchObject({
      state: "cancelled",
      cancelled: { by: "ann@pve", reason: "stopped by user" },
    });
    expect(undone).toBe(1);
    expect(await engine.cancel(running.upid, "ann@pve")).toBe(false);
    expect(logs.lines.get(waiting.upid)).toEqual([
      "stopped by user (ann@pve)",
      "TASK ERROR: received interrupt",
    ]);
    await engine.stop();
  });

  it("cancels even when the step does not listen, once it returns", async () => {
    const deaf = gate();
    const { engine } = testEngine();
    engine.register(simple("deaf", () => deaf.passed));
    await engine.start();
    const { upid } = await engine.submit({ type: "deaf", resources: [], actor: joe });
    await tick();
    const both = [engine.cancel(upid, joe), engine.cancel(upid, joe)];
    deaf.open();
    expect(await Promise.all(both)).toEqual([true, true]);
    expect((await engine.wait(upid)).state).toBe("cancelled");
    await engine.stop();
  });

  it("stop ends a running and a waiting shutdown and takes their place", async () => {
    const order: string[] = [];
    const { engine } = testEngine();
    engine.register(simple("shutdown", (ctx) => untilAborted(ctx.signal)));
    engine.register(simple("config", () => void order.push("config")));
    engine.register({ ...simple("stop", () => void order.push("stop")), overtakes: ["shutdown", "reboot"] });
    await engine.start();
    const submit = (type: string, key = "vm/1") => engine.submit({ type, resources: [key], actor: joe });
    const other = await submit("shutdown", "vm/2");
    const running = await submit("shutdown");
    const config = await submit("config");
    const waiting = await submit("shutdown");
    const stop = await submit("stop");
    expect((await engine.wait(stop.upid)).state).toBe("done");
    await engine.wait(config.upid);
    expect(order).toEqual(["stop", "config"]);
    expect(engine.get(running.upid)).toMatchObject({
      state: "cancelled",
      cancelled: { by: joe, reason: "overtaken by stop" },
    });
    expect(engine.get(waiting.upid)?.state).toBe("cancelled");
    expect(engine.get(other.upid)?.state).toBe("running");
    await engine.stop(0);
  });
});

describe("synchronous methods", () => {
  it("wait for the running step, go in between steps and before waiting operations", async () => {
    const order: string[] = [];
    const [first, second] = [gate(), gate()];
    const { engine } = testEngine();
    engine.register({
      type: "two",
      steps: [
        { name: "a", run: () => first.passed.then(() => void order.push("a")) },
        { name: "b", run: () => second.passed.then(() => void order.push("b")) },
      ],
    });
    await engine.start();
    const running = await engine.submit({ type: "two", resources: ["vm/1"], actor: joe });
    const waiting = await engine.submit({ type: "two", resources: ["vm/1"], actor: joe });
    const sync = engine.withResource("vm/1", {}, () => order.push("sync"));
    const free = await engine.withResource(["vm/2", "vm/3"], {}, () => "free");
    expect(free).toBe("free");
    await tick();
    expect(order).toEqual([]);
    first.open();
    await sync;
    second.open();
    await engine.wait(running.upid);
    await engine.wait(waiting.upid);
    expect(order).toEqual(["a", "sync", "b", "a", "b"]);
    await engine.stop();
  });

  it("do not get in between the steps of an exclusive operation", async () => {
    const order: string[] = [];
    const { engine } = testEngine();
    engine.register({
      type: "whole",
      exclusive: true,
      steps: ["a", "b"].map((name) => ({ name, run: () => tick().then(() => void order.push(name)) })),
    });
    await engine.start();
    await engine.submit({ type: "whole", resources: ["vm/1"], actor: joe });
    await engine.withResource("vm/1", {}, () => order.push("sync"));
    expect(order).toEqual(["a", "b", "sync"]);
    await engine.stop();
  });

  it("fail after ten seconds with PVE's text, and leave no trace in the queue", async () => {
    const clock = new FakeClock();
    const stuck = gate();
    const { engine } = testEngine({ clock });
    engine.register(simple("qmstart", () => stuck.passed));
    await engine.start();
    const { upid } = await engine.submit({ type: "qmstart", resources: ["vm/1"], actor: joe });
    const sync = engine.withResource("vm/1", {}, () => "never").catch((error: unknown) => error);
    await clock.advance(9_999);
    await clock.advance(1);
    expect(await sync).toMatchObject({
      code: "resource.busy",
      message: "VM is locked (qmstart)",
      pveStatus: 500,
    });
    const named = engine.withResource("vm/1", { lockFile: "/x.conf" }, () => "never");
    const refusal = expect(named).rejects.toThrow("can't lock file '/x.conf' - got timeout");
    await clock.advance(10_000);
    await refusal;
    stuck.open();
    await engine.wait(upid);
    expect(await engine.withResource("vm/1", {}, () => "now")).toBe("now");
    await engine.stop();
  });

  it("fail at once while an operation with a PVE lock runs, and when their caller goes away", async () => {
    const stuck = gate();
    const { engine } = testEngine();
    engine.register<{ kind: string }, Record<string, unknown>>({
      type: "clone",
      lock: (args) => (args.kind === "ct" ? "create" : undefined),
      steps: [{ name: "copy", run: () => stuck.passed }],
    });
    await engine.start();
    await engine.submit({ type: "clone", resources: ["vm/1"], args: { kind: "ct" }, actor: joe });
    await engine.submit({ type: "clone", resources: ["vm/2"], args: { kind: "vm" }, actor: joe });
    await expect(engine.withResource("vm/1", { noun: "CT" }, () => {})).rejects.toThrow(
      "CT is locked (create)",
    );
    const caller = new AbortController();
    const sync = engine.withResource("vm/2", { signal: caller.signal }, () => {});
    caller.abort();
    await expect(sync).rejects.toThrow("VM is locked (clone)");
    stuck.open();
    await engine.stop();
  });

  it("a failing method frees the resource", async () => {
    const { engine } = testEngine();
    await engine.start();
    await expect(engine.withResource("a", {}, () => Promise.reject(new Error("oops")))).rejects.toThrow(
      "oops",
    );
    expect(await engine.withResource("a", {}, () => 1)).toBe(1);
    await engine.stop();
  });
});

describe("events, pruning", () => {
  it("tells observers what happens, in order", async () => {
    const events: string[] = [];
    const clock = new FakeClock(1_000);
    const { engine } = testEngine({ clock });
    engine.register(
      simple("talk", async (ctx) => {
        ctx.log("one\ntwo");
        await clock.sleep(20);
      }),
    );
    await engine.start();
    const stopObserving = engine.observe((event: OperationEvent) =>
      events.push(event.kind === "log" ? `log ${event.line}` : event.kind),
    );
    const { upid } = await engine.submit({ type: "talk", resources: [], actor: joe });
    const waited = engine.wait(upid, new AbortController().signal);
    await clock.advance(30);
    await waited;
    stopObserving();
    expect(events).toEqual(["accepted", "started", "step", "log one", "log two", "ended"]);
    await engine.stop();
  });

  it("survives an observer that throws", async () => {
    const { engine } = testEngine();
    engine.register(simple("quick", () => {}));
    await engine.start();
    engine.observe(() => {
      throw new Error("observer");
    });
    const { upid } = await engine.submit({ type: "quick", resources: [], actor: joe });
    expect((await engine.wait(upid)).state).toBe("done");
    await engine.stop();
  });

  it("gives up waiting when asked", async () => {
    const stuck = gate();
    const { engine } = testEngine();
    engine.register(simple("stuck", () => stuck.passed));
    await engine.start();
    const { upid } = await engine.submit({ type: "stuck", resources: [], actor: joe });
    const signal = new AbortController();
    const waited = engine.wait(upid, signal.signal);
    signal.abort();
    await expect(waited).rejects.toMatchObject({ code: "operation.cancelled" });
    await expect(engine.wait(upid, signal.signal)).rejects.toThrow("given up");
    stuck.open();
    await engine.stop();
  });
});
