import fc from "fast-check";
import { expect, test } from "vitest";
import { ArrivalList } from "./arrival-list.ts";

test("keeps the order of arrival like a Set, whatever is added and removed", () => {
  const values = Array.from({ length: 6 }, (_, id) => ({ id }));
  const step = fc.tuple(fc.boolean(), fc.integer({ min: 0, max: 5 }));
  fc.assert(
    fc.property(fc.array(step, { maxLength: 60 }), (steps) => {
      const list = new ArrivalList<{ id: number }>();
      const model = new Set<{ id: number }>();
      for (const [adds, at] of steps) {
        const value = values[at] ?? { id: -1 };
        if (adds) list.add(value);
        else list.delete(value);
        if (adds) model.add(value);
        else model.delete(value);
        expect(list.size).toBe(model.size);
        expect(list.oldest).toBe([...model][0]);
      }
      for (const value of model) {
        expect(list.oldest).toBe(value);
        list.delete(value);
      }
      expect(list.oldest).toBeUndefined();
    }),
  );
});
