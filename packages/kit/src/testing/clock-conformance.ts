// What everyone who is given a clock may rely on: run on the one that tests move and on the system's.
import { expect, it } from "vitest";
import type { Clock } from "../clock.ts";

export interface ClockUnderTest {
  readonly clock: Clock;
  /** Lets at least so much time pass. */
  readonly pass: (ms: number) => Promise<void>;
}

export function clockConformance(open: () => ClockUnderTest): void {
  it("goes forward, on both of its scales", async () => {
    const { clock, pass } = open();
    const [now, monotonic] = [clock.now(), clock.monotonic()];
    await pass(20);
    // Timers may fire a little early by the finer scale.
    expect(clock.now() - now).toBeGreaterThanOrEqual(19);
    expect(clock.monotonic() - monotonic).toBeGreaterThanOrEqual(19);
  });

  it("calls back once, in order of time, and not when it was told not to", async () => {
    const { clock, pass } = open();
    const called: string[] = [];
    clock.after(60, () => called.push("later"));
    clock.after(10, () => called.push("soon"));
    const cancel = clock.after(30, () => called.push("never"));
    cancel();
    cancel();
    expect(called).toEqual([]);
    await pass(200);
    expect(called).toEqual(["soon", "later"]);
    await pass(50);
    expect(called).toHaveLength(2);
  });

  it("sleeps until time has passed, or the signal says why not", async () => {
    const { clock, pass } = open();
    const woken: string[] = [];
    const slept = clock.sleep(10).then(() => woken.push("slept"));
    const reason = new Error("no longer wanted");
    const abort = new AbortController();
    const waiting = expect(clock.sleep(600_000, abort.signal)).rejects.toBe(reason);
    await pass(100);
    await slept;
    expect(woken).toEqual(["slept"]);
    abort.abort(reason);
    await waiting;
    await expect(clock.sleep(600_000, abort.signal)).rejects.toBe(reason);
    await expect(clock.sleep(600_000, AbortSignal.abort("a word"))).rejects.toThrow("a word");
  });
}
