import { AppError } from "@gpve/contracts/errors.ts";
import { FakeClock } from "@gpve/kit/testing/fake-clock.ts";
import type { TxnResponse } from "@gpve/store/port.ts";
import { expect, test } from "vitest";
import { type Asked, FirstAnswer } from "./first-answer.ts";

interface Server extends Asked {
  readonly asked: AbortSignal[];
  answer(revision: number): void;
  fail(err: Error): void;
}

/** Answers when it is told to. */
function server(): Server {
  const pending: PromiseWithResolvers<TxnResponse>[] = [];
  const asked: AbortSignal[] = [];
  return {
    asked,
    txn: (_request, { signal } = {}) => {
      if (signal !== undefined) asked.push(signal);
      const call = Promise.withResolvers<TxnResponse>();
      pending.push(call);
      return call.promise;
    },
    answer: (revision) => pending.shift()?.resolve({ succeeded: true, responses: [], revision }),
    fail: (err) => pending.shift()?.reject(err),
  };
}

const request = { compare: [], success: [] };
const away = new AppError("store.unavailable", "cut off");

function world(): {
  readonly servers: readonly [Server, Server, Server];
  clock: FakeClock;
  first: FirstAnswer;
} {
  const clock = new FakeClock(0);
  const servers = [server(), server(), server()] as const;
  return { servers, clock, first: new FirstAnswer({ stores: () => servers, clock }) };
}

const counts = (servers: readonly Server[]): readonly number[] => servers.map(({ asked }) => asked.length);

test("one that answers in time is asked alone, and first again", async () => {
  const { servers, clock, first } = world();
  for (const revision of [1, 2]) {
    const answer = first.txn(request);
    await clock.advance(500);
    servers[0].answer(revision);
    expect((await answer).revision).toBe(revision);
  }
  await clock.advance(5_000);
  expect(counts(servers)).toEqual([2, 0, 0]);
});

test("one that says nothing keeps nobody waiting; whoever answered is asked first from then on", async () => {
  const { servers, clock, first } = world();
  const answer = first.txn(request);
  await clock.advance(700);
  expect(counts(servers)).toEqual([1, 1, 0]);
  servers[1].answer(7);
  expect((await answer).revision).toBe(7);
  expect(servers[0].asked[0]?.aborted).toBe(true);
  await clock.advance(5_000);
  const next = first.txn(request);
  servers[1].answer(8);
  expect((await next).revision).toBe(8);
  expect(counts(servers)).toEqual([1, 2, 0]);
});

test("one that fails is followed by the next at once", async () => {
  const { servers, clock, first } = world();
  const answer = first.txn(request);
  servers[0].fail(away);
  await clock.advance(0);
  expect(counts(servers)).toEqual([1, 1, 0]);
  servers[1].answer(3);
  expect((await answer).revision).toBe(3);
});

test("when all fail a refusal counts more than those that are away", async () => {
  const { servers, clock, first } = world();
  const answer = first.txn(request);
  const said = expect(answer).rejects.toThrow("not yours");
  servers[0].fail(new AppError("access.denied", "not yours"));
  await clock.advance(0);
  servers[1].fail(away);
  await clock.advance(0);
  servers[2].fail(away);
  await said;
  const again = expect(first.txn(request)).rejects.toBe(away);
  for (const each of servers) {
    each.fail(away);
    await clock.advance(0);
  }
  await again;
});

test("without a server there is nothing to ask", () => {
  expect(() => new FirstAnswer({ stores: () => [], clock: new FakeClock(0) })).toThrow("no server");
});

test("a server that joined is asked when the others are away, and one that left no more", async () => {
  const [clock, old, joined] = [new FakeClock(0), server(), server()];
  let stores: readonly Asked[] = [old];
  const first = new FirstAnswer({ stores: () => stores, clock });
  const before = first.txn(request);
  old.answer(1);
  await before;
  stores = [joined, old];
  // The one that answered stays the first.
  const during = first.txn(request);
  expect(counts([old, joined])).toEqual([2, 0]);
  old.fail(away);
  await clock.advance(0);
  joined.answer(2);
  expect((await during).revision).toBe(2);
  stores = [joined];
  const after = first.txn(request);
  joined.answer(3);
  expect((await after).revision).toBe(3);
  expect(counts([old, joined])).toEqual([2, 2]);
});
