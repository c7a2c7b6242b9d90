import { expect, test } from "vitest";
import { mergeRevoked, readRevoked, withRevoked } from "./revoked.ts";

const YEAR = 366 * 86_400_000;
const [first, second] = ["0123456789abcdef", "1123456789abcdef"] as const;

test("a kubeconfig that was taken back is denied until none of its time can be good", () => {
  const before = withRevoked({}, first, 1_000);
  expect(before).toEqual({ [first]: 1_000 + YEAR });
  expect(withRevoked(before, second, YEAR)).toEqual({ [first]: 1_000 + YEAR, [second]: 2 * YEAR });
  expect(withRevoked(before, second, 1_000 + YEAR)).toEqual({ [second]: 1_000 + 2 * YEAR });
});

test("what two nodes know is known by both, and not more than an API server can judge by", () => {
  expect(mergeRevoked({ [first]: 1, [second]: 5 }, { [first]: 3 })).toEqual({ [second]: 5, [first]: 3 });
  const many = Object.fromEntries(
    Array.from({ length: 600 }, (_none, at) => [at.toString(16).padStart(16, "0"), at]),
  );
  const kept = mergeRevoked(many, {});
  expect([Object.keys(kept).length, Math.min(...Object.values(kept))]).toEqual([500, 100]);
});

test("what is no id comes into no rule", () => {
  const forged = { [first]: 5, "x'] || true": 5, [second]: "5" };
  expect(readRevoked(forged)).toEqual({ [first]: 5 });
  expect([readRevoked(undefined), readRevoked("x"), readRevoked(null)]).toEqual([{}, {}, {}]);
});
