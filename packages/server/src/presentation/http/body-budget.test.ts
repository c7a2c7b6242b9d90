import { beforeEach, describe, expect, test } from "vitest";
import { BodyBudget, type BodyOwner } from "./body-budget.ts";

const stranger = (name: string): BodyOwner => ({ kind: "strangers", name });
const user = (name: string): BodyOwner => ({ kind: "users", name });

let budget: BodyBudget;
let dropped: string[];
const begin = (owner: BodyOwner, body = owner.name) => budget.begin(owner, () => dropped.push(body));

beforeEach(() => {
  budget = new BodyBudget({ strangers: { inAll: 100, each: 40 }, users: { inAll: 200, each: 80 } });
  dropped = [];
});

describe("bytes of bodies", () => {
  test("are bounded for each address, in all its bodies", () => {
    const [one, two] = [begin(stranger("a")), begin(stranger("a"))];
    expect(one.hold(30)).toBe(true);
    expect(two.hold(10)).toBe(true);
    expect(two.hold(1)).toBe(false);
    expect(begin(stranger("b")).hold(40)).toBe(true);
    one.release();
    expect(two.hold(30)).toBe(true);
    expect(dropped).toEqual([]);
  });

  test("of strangers take nothing from users", () => {
    for (const name of ["a", "b", "c", "d", "e"]) begin(stranger(name)).hold(40);
    expect(budget.held("strangers")).toBeLessThanOrEqual(100);
    expect(begin(user("joe@pve")).hold(80)).toBe(true);
    expect(begin(user("joe@pve")).hold(1)).toBe(false);
    expect(begin(user("ann@pve")).hold(80)).toBe(true);
  });

  test("of whoever holds most go first, its oldest body before the others", () => {
    begin(stranger("greedy"), "greedy 1").hold(20);
    begin(stranger("greedy"), "greedy 2").hold(20);
    begin(stranger("other")).hold(39);
    begin(stranger("third")).hold(21);
    const small = begin(stranger("small"));
    expect(small.hold(5)).toBe(true);
    expect(dropped).toEqual(["greedy 1"]);
    expect(small.hold(16)).toBe(true);
    expect(dropped).toEqual(["greedy 1", "other"]);
    expect(budget.held("strangers")).toBe(62);
  });

  test("that would make oneself the greediest are refused", () => {
    for (const name of ["a", "b", "c"]) begin(stranger(name)).hold(30);
    const last = begin(stranger("d"));
    expect(last.hold(40)).toBe(false);
    last.release();
    expect(budget.held("strangers")).toBe(90);
    expect(dropped).toEqual([]);
  });

  test("are given back once", () => {
    const body = begin(stranger("a"));
    body.hold(10);
    body.release();
    body.release();
    expect(budget.held("strangers")).toBe(0);
    begin(stranger("a")).release();
    expect(budget.held("strangers")).toBe(0);
  });
});
