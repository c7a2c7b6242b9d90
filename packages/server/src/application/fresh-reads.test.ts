import { AppError } from "@gpve/contracts/errors.ts";
import { FakeClock } from "@gpve/kit/testing/fake-clock.ts";
import { expect, test } from "vitest";
import { freshReads } from "./fresh-reads.ts";

const signal = new AbortController().signal;

function fixture() {
  const said: string[] = [];
  const clock = new FakeClock();
  let asked = 0;
  let answer: () => Promise<void> = async () => undefined;
  const { fresh, answers } = freshReads({
    records: {
      fresh: () => {
        asked++;
        return answer();
      },
    },
    clock,
    log: { warn: (_fields, message) => said.push(message), info: (_fields, message) => said.push(message) },
  });
  return { fresh, answers, clock, said, asked: () => asked, store: (next: typeof answer) => (answer = next) };
}

test("asks the store before every read while it answers", async () => {
  const { fresh, asked, said } = fixture();
  await fresh(signal);
  await fresh(signal);
  expect(asked()).toBe(2);
  expect(said).toEqual([]);
});

test("reads go on from memory while the store is away, and say so once", async () => {
  const { fresh, answers, clock, asked, said, store } = fixture();
  store(() => Promise.reject(new AppError("store.unavailable", "no endpoint answers")));
  await fresh(signal);
  await fresh(signal);
  expect(asked()).toBe(1);
  await clock.advance(5_000);
  await fresh(signal);
  expect(asked()).toBe(2);
  expect(said).toEqual(["the store does not answer: reads show what this server last knew"]);
  expect(answers()).toBe(false);
  store(async () => undefined);
  await clock.advance(5_000);
  await fresh(signal);
  expect(said.at(-1)).toBe("the store answers again: reads are up to date");
  expect(answers()).toBe(true);
  await fresh(signal);
  expect(asked()).toBe(4);
});

test("does not wait for a store that says nothing", async () => {
  const { fresh, clock, said, store } = fixture();
  store(() => new Promise(() => undefined));
  const read = fresh(signal);
  await clock.advance(2_000);
  await read;
  expect(said).toHaveLength(1);
});

test("passes other failures on", async () => {
  const { fresh, store } = fixture();
  store(() => Promise.reject(new AppError("operation.cancelled", "gone")));
  await expect(fresh(signal)).rejects.toThrow("gone");
});
