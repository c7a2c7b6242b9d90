import { describe, expect, test } from "vitest";
import { GRACE_MS, leftOf, LONGEST_CALL_MS, type Reservation, type ReservationFacts } from "./reservation.ts";

const reservation: Reservation = {
  requestId: "r1",
  route: "POST /nodes/{node}/qemu",
  node: "n1",
  vmid: 100,
  type: "qemu",
  about: 100,
  pool: "a",
  demand: { cpu: 2 },
  tags: [],
  isNew: true,
  starts: false,
  at: 1000,
  by: "s1#one",
};
const TASK = "UPID:n1:x";
const facts: ReservationFacts = {
  now: 1000,
  by: "s1#one",
  taskEnd: () => ({ endtime: undefined }),
  isWorkedOn: () => false,
  isThere: () => true,
  told: () => undefined,
};
const later = (ms: number): ReservationFacts => ({ ...facts, now: reservation.at + ms });

describe("without a task", () => {
  test("stands as long as the process that made it is about to hear of it", () => {
    expect(leftOf(reservation, later(10 * LONGEST_CALL_MS))).toBe(reservation);
  });

  test.each([
    ["the server was killed and started again", { ...reservation, by: "s1#before" }],
    ["the connection broke", { ...reservation, lost: true as const }],
  ])("is over a while after %s, unless a task works on the guest", (_why, orphan) => {
    expect(leftOf(orphan, later(GRACE_MS - 1))).toBe(orphan);
    expect(leftOf(orphan, { ...later(GRACE_MS + 1), isWorkedOn: () => true })).toBe(orphan);
    expect(leftOf(orphan, later(GRACE_MS + 1))).toBeUndefined();
  });

  test("of another server, which may live, is over after the longest call", () => {
    const others = { ...reservation, by: "s2#x" };
    expect(leftOf(others, later(GRACE_MS + 1))).toBe(others);
    expect(leftOf(others, later(LONGEST_CALL_MS + 1))).toBeUndefined();
  });
});

test("with a task it ends with the task, also with one that nobody remembers", () => {
  const working = { ...reservation, upid: TASK };
  expect(leftOf(working, facts)).toBe(working);
  expect(leftOf(working, { ...facts, taskEnd: () => ({ endtime: 5 }) })).toBeUndefined();
  expect(leftOf(working, { ...facts, taskEnd: () => undefined })).toBe(working);
  expect(leftOf(working, { ...later(GRACE_MS + 1), taskEnd: () => undefined })).toBeUndefined();
});

test("of a guest that was started it is left that it runs, until its node says that it does not", () => {
  const started = { ...reservation, upid: TASK, starts: true };
  const ended = { ...facts, taskEnd: () => ({ endtime: 5 }) };
  const mark = leftOf(started, ended);
  expect(mark).toMatchObject({ isNew: false, demand: {}, starts: true });
  if (mark === undefined) throw new Error("gone");
  expect(leftOf(mark, ended)).toBe(mark);
  const told = (at: number, running: boolean) => ({ ...ended, told: () => ({ at, running }) });
  expect(leftOf(mark, told(5500, false))).toBe(mark);
  expect(leftOf(mark, told(6001, true))).toBe(mark);
  expect(leftOf(mark, told(6001, false))).toBeUndefined();
  expect(leftOf(mark, { ...ended, isThere: () => false })).toBeUndefined();
});
