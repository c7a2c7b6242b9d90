import { expect, test } from "vitest";
import { background, ignore } from "./background.ts";
import { systemClock } from "./clock.ts";
import { KeyedQueue } from "./keyed-queue.ts";
import { FakeClock } from "./testing/fake-clock.ts";

test("runs work on one key in order, also after a failure, and other keys side by side", async () => {
  const queue = new KeyedQueue();
  const seen: string[] = [];
  const slow = queue.run("a", async () => {
    await new Promise((resolve) => setTimeout(resolve, 20));
    seen.push("a1");
    throw new Error("a1 failed");
  });
  const after = queue.run("a", async () => seen.push("a2"));
  const other = queue.run("b", async () => seen.push("b1"));
  await expect(slow).rejects.toThrow("a1 failed");
  await Promise.all([after, other]);
  expect(seen).toEqual(["b1", "a1", "a2"]);
  await Promise.resolve();
  expect(queue.size).toBe(0);
});

test("records the failure of background work", async () => {
  const lines: string[] = [];
  background(
    { error: (_fields, message) => void lines.push(message) },
    "sweep",
    Promise.reject(new Error("x")),
  );
  await new Promise((resolve) => setImmediate(resolve));
  expect(lines).toEqual(["sweep failed"]);
  ignore(new Error("gone"), "nothing to do");
});

test("sleeps until told otherwise", async () => {
  const abort = new AbortController();
  const sleeping = systemClock.sleep(10_000, abort.signal);
  abort.abort(new Error("enough"));
  await expect(sleeping).rejects.toThrow("enough");
  await expect(systemClock.sleep(1, abort.signal)).rejects.toThrow("enough");
  await systemClock.sleep(1);
  let fired = false;
  systemClock.after(1, () => (fired = true));
  systemClock.after(1, () => (fired = false))();
  await systemClock.sleep(10);
  expect(fired).toBe(true);
  expect(systemClock.monotonic()).toBeGreaterThan(0);
});

test("moves a fake clock by hand", async () => {
  const clock = new FakeClock(0);
  const order: number[] = [];
  clock.after(20, () => order.push(clock.now()));
  void clock.sleep(10).then(() => order.push(clock.now()));
  const abort = new AbortController();
  const never = clock.sleep(10, abort.signal);
  abort.abort("stop");
  await expect(never).rejects.toThrow("stop");
  await clock.advance(30);
  expect(order).toEqual([10, 20]);
  expect(clock.monotonic()).toBe(30);
});
