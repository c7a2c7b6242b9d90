import { describe, expect, it } from "vitest";
import { FakeClock } from "@gpve/kit/testing/fake-clock.ts";
import { ProgressQuestion } from "./progress-question.ts";

/** A line that counts what is sent on it. */
function asked() {
  const clock = new FakeClock();
  const question = new ProgressQuestion(clock);
  const line = new AbortController();
  const sent = { times: 0 };
  const ended = (async () => {
    while (await question.due(line.signal)) sent.times += 1;
  })();
  return { clock, question, line, sent, ended };
}

describe("asking an etcd member how far a watch is", () => {
  it("believes an answer when nothing came until a second one, some time later", async () => {
    const { clock, question, sent } = asked();
    question.ask();
    await clock.advance(0);
    expect(sent.times).toBe(1);
    expect(question.answered(7)).toBeUndefined();
    await clock.advance(499);
    expect(sent.times).toBe(1);
    await clock.advance(1);
    expect(sent.times).toBe(2);
    // Events of 8 and 9 may be under way.
    expect(question.answered(9)).toBe(7);
    expect(question.answered(9)).toBeUndefined();
  });

  it("doubts an answer that events it spoke of came after", async () => {
    const { clock, question, sent } = asked();
    question.ask();
    await clock.advance(0);
    question.answered(7);
    expect(question.heard(6)).toBe(false);
    await clock.advance(500);
    expect(question.answered(7)).toBeUndefined();
    await clock.advance(500);
    expect(question.answered(7)).toBe(7);
    expect(sent.times).toBe(3);
  });

  it("needs no second answer when an event is as new as the first", async () => {
    const { clock, question, sent } = asked();
    expect(question.heard(5)).toBe(false);
    question.ask();
    await clock.advance(0);
    expect(question.heard(6)).toBe(false);
    question.answered(7);
    expect(question.heard(7)).toBe(true);
    await clock.advance(10_000);
    expect(sent.times).toBe(1);
  });

  it("asks once more for those who asked meanwhile, and again on a new line", async () => {
    const { clock, question, sent, line, ended } = asked();
    for (let i = 0; i < 5; i++) question.ask();
    await clock.advance(0);
    expect(sent.times).toBe(1);
    question.answered(3);
    expect(question.heard(3)).toBe(true);
    await clock.advance(0);
    expect(sent.times).toBe(2);
    question.answered(4);
    line.abort();
    await ended;
    question.hangUp();
    expect(await question.due(new AbortController().signal)).toBe(true);
    expect(question.answered(4)).toBeUndefined();
  });
});
