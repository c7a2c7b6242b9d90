import { expect, test } from "vitest";
import type { Quota } from "./quota.ts";
import type { Reservation } from "./reservation.ts";
import { refusals, usageOf, usesOf, type Member } from "./usage.ts";

const quota: Quota = { name: "q", tenant: "a", limits: { cpu: 10 }, requests: { cpu: 4 } };
const member = (vmid: number, more: Partial<Member> = {}): Member => ({
  vmid,
  pool: "a",
  demand: { cpu: 2 },
  tags: [],
  running: false,
  ...more,
});
const promised = (vmid: number, more: Partial<Reservation> = {}): Reservation => ({
  requestId: `r${vmid}`,
  route: "x",
  node: "n1",
  vmid,
  type: "qemu",
  about: vmid,
  demand: { cpu: 1 },
  tags: [],
  isNew: false,
  starts: false,
  at: 0,
  by: "s#p",
  ...more,
});
const cpu = (members: readonly Member[], reservations: readonly Reservation[] = [], of = quota) => {
  const { limits, requests } = usageOf(of, usesOf(members, reservations));
  return [limits.cpu ?? 0, requests.cpu ?? 0];
};

test("adds up what is defined, and of it what runs, in the tenant and all below", () => {
  const members = [
    member(1),
    member(2, { running: true }),
    member(3, { pool: "a/b" }),
    member(4, { pool: "ab" }),
  ];
  expect(cpu(members)).toEqual([6, 2]);
});

test("a new guest counts once, before its record is there and after", () => {
  const coming = promised(1, { isNew: true, pool: "a", demand: { cpu: 5 } });
  expect(cpu([], [coming])).toEqual([5, 0]);
  expect(cpu([member(1, { madeBy: "r1" })], [coming])).toEqual([5, 0]);
  expect(cpu([member(1, { madeBy: "somebody" })], [coming])).toEqual([7, 0]);
});

test("what is promised to changes of one guest adds up", () => {
  expect(cpu([member(1)], [promised(1), promised(1, { requestId: "other" })])).toEqual([4, 0]);
});

test("a guest that is being started runs, and in a scope of what stands still it still counts", () => {
  const starting = promised(1, { demand: {}, starts: true });
  expect(cpu([member(1)], [starting])).toEqual([2, 2]);
  expect(cpu([member(1)], [starting], { ...quota, scope: { state: "stopped" } })[0]).toBe(2);
});

test("tags that a change gives or takes count both ways until it is done", () => {
  const scoped: Quota = { ...quota, scope: { tags: ["gold"] } };
  expect(cpu([member(1)], [promised(1, { demand: {}, tags: ["gold"] })], scoped)).toEqual([2, 0]);
  expect(cpu([member(1, { tags: ["gold"] })], [promised(1, { demand: {} })], scoped)).toEqual([2, 0]);
});

test("the quotas of every pool around are asked", () => {
  const inner: Quota = { ...quota, name: "inner", tenant: "a/b", limits: { cpu: 3 } };
  const wish = promised(9, { isNew: true, pool: "a/b", demand: { cpu: 4 } });
  const members = [member(1), member(2), member(3), member(4)];
  const found = refusals([quota, inner], usesOf(members, []), usesOf(members, [wish]));
  expect(found.map(({ quota: name, used, asked, hard }) => [name, used, asked, hard])).toEqual([
    ["q", 8, 4, 10],
    ["inner", 0, 4, 3],
  ]);
});
