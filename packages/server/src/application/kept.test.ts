import { expect, test } from "vitest";
import { Kept } from "./kept.ts";

test("keeps a value while the facts are the same, and forgets all when one changes", () => {
  const kept = new Kept<{ made: number }>({ limit: 10, weigh: () => 1 });
  let made = 0;
  const make = (): { made: number } => ({ made: ++made });
  const facts = { a: {}, b: {} };
  const first = kept.get([facts.a, facts.b], "joe", make);
  expect(kept.get([facts.a, facts.b], "joe", make)).toBe(first);
  expect(kept.get([facts.a, facts.b], "ann", make)).not.toBe(first);
  expect(kept.get([facts.a, {}], "joe", make)).toEqual({ made: 3 });
  expect(kept.get([facts.a], "joe", make)).toEqual({ made: 4 });
});

test("never keeps more than its limit", () => {
  const kept = new Kept<string>({ limit: 10, weigh: (text) => text.length });
  const facts = [1];
  let made = 0;
  const ask = (name: string): string =>
    kept.get(facts, name, () => {
      made++;
      return "x".repeat(6);
    });
  ask("a");
  ask("a");
  expect(made).toBe(1);
  ask("b"); // together 12: "a" has to go
  ask("b");
  expect(made).toBe(2);
  ask("a");
  expect(made).toBe(3);
});
