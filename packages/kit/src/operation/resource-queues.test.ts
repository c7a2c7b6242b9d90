import { setImmediate as tick } from "node:timers/promises";
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { ResourceQueues } from "./resource-queues.ts";
import type { QueueEntry } from "./resource-queues.ts";

const entry = (sequence: number, keys: readonly string[], order = sequence): QueueEntry => ({
  id: `o${sequence}`,
  sequence,
  order,
  keys,
});

const keySets = fc.uniqueArray(fc.constantFrom("a", "b", "c", "d"), { maxLength: 3 });
const plans = fc.array(
  fc.record({
    keys: keySets,
    isSync: fc.boolean(),
    /** Steps of an operation: it lets synchronous callers through between them. */
    steps: fc.integer({ min: 1, max: 3 }),
    pause: fc.boolean(),
  }),
  { maxLength: 25 },
);

describe("ResourceQueues", () => {
  it("whatever comes: one at a time per key, operations in order, and everybody gets a turn", async () => {
    await fc.assert(
      fc.asyncProperty(plans, async (plan) => {
        const inside = new Map<string, string>();
        const started: QueueEntry[] = [];
        const finished: string[] = [];
        const enter = (name: string, keys: readonly string[]): void => {
          for (const key of keys) {
            expect(inside.get(key), `${name} on ${key}`).toBeUndefined();
            inside.set(key, name);
          }
        };
        const leave = (keys: readonly string[]): void => {
          for (const key of keys) inside.delete(key);
        };
        const work: Promise<void>[] = [];
        const stepsOf = new Map<string, number>();
        const run = async (one: QueueEntry): Promise<void> => {
          started.push(one);
          for (let step = 0; step < (stepsOf.get(one.id) ?? 1); step++) {
            enter(one.id, one.keys);
            await tick();
            leave(one.keys);
            await queues.letThrough(one);
          }
          finished.push(one.id);
          queues.release(one);
        };
        const pump = (): void => {
          for (let one = queues.take(); one !== undefined; one = queues.take()) work.push(run(one));
        };
        const queues = new ResourceQueues(pump);
        const sync = async (name: string, keys: readonly string[]): Promise<void> => {
          const release = await queues.request(keys).granted;
          enter(name, keys);
          await tick();
          leave(keys);
          finished.push(name);
          release();
        };
        for (const [at, { keys, isSync, steps, pause }] of plan.entries()) {
          if (isSync) work.push(sync(`s${at}`, keys));
          else {
            stepsOf.set(`o${at}`, steps);
            queues.add(entry(at, keys));
            pump();
          }
          if (pause) await tick();
        }
        for (let round = 0; round < 500 && finished.length < plan.length; round++) await tick();
        expect(finished).toHaveLength(plan.length);
        await Promise.all(work);
        for (const key of ["a", "b", "c", "d"]) {
          const order = started.filter(({ keys }) => keys.includes(key)).map(({ sequence }) => sequence);
          expect(order).toEqual(order.toSorted((x, y) => x - y));
        }
        expect(queues.waiting).toBe(0);
      }),
      { numRuns: 150 },
    );
  });

  it("an entry with the place of another goes before those behind it", () => {
    const queues = new ResourceQueues(() => {});
    queues.hold(entry(1, ["a"]));
    queues.add(entry(2, ["a"]));
    queues.add(entry(3, ["a"], 1));
    queues.release(entry(1, ["a"]));
    expect(queues.take()?.id).toBe("o3");
    expect(queues.take()).toBeUndefined();
    expect(queues.drop("o2")).toBe(true);
    expect(queues.drop("o2")).toBe(false);
  });

  it("a caller that gave up is forgotten", async () => {
    const queues = new ResourceQueues(() => {});
    queues.hold(entry(1, ["a"]));
    const { giveUp } = queues.request(["a"]);
    giveUp();
    giveUp();
    await queues.letThrough(entry(1, ["a"]));
    expect(queues.holderOf("a")?.id).toBe("o1");
  });
});
