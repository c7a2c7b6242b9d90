import { setImmediate as tick } from "node:timers/promises";
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { ResourceQueues } from "./resource-queues.ts";
import type { QueueEntry } from "./resource-queues.ts";

const entry = (
  sequence: number,
  keys: readonly string[],
  order = sequence,
  shared: readonly string[] = [],
): QueueEntry => ({ id: `o${sequence}`, sequence, order, keys, shared });

const keySets = fc.uniqueArray(fc.constantFrom("a", "b", "c", "d"), { maxLength: 3 });
const plans = fc.array(
  fc.record({
    keys: keySets,
    /** Of its keys, how many it only reads. */
    reads: fc.nat({ max: 3 }),
    isSync: fc.boolean(),
    /** Steps of an operation: it lets synchronous callers through between them. */
    steps: fc.integer({ min: 1, max: 3 }),
    pause: fc.boolean(),
  }),
  { maxLength: 25 },
);

describe("ResourceQueues", () => {
  it("whatever comes: one at a time per key or readers alone, in order, and everybody gets a turn", async () => {
    await fc.assert(
      fc.asyncProperty(plans, async (plan) => {
        const inside = new Map<string, { readonly name: string; readonly reads: boolean }[]>();
        const started: QueueEntry[] = [];
        const finished: string[] = [];
        const enter = (name: string, keys: readonly string[], shared: readonly string[] = []): void => {
          for (const key of keys) {
            const reads = shared.includes(key);
            const others = inside.get(key) ?? [];
            expect(reads ? others.filter((other) => !other.reads) : others, `${name} on ${key}`).toEqual([]);
            inside.set(key, [...others, { name, reads }]);
          }
        };
        const leave = (name: string, keys: readonly string[]): void => {
          for (const key of keys)
            inside.set(
              key,
              (inside.get(key) ?? []).filter((other) => other.name !== name),
            );
        };
        const work: Promise<void>[] = [];
        const stepsOf = new Map<string, number>();
        const run = async (one: QueueEntry): Promise<void> => {
          started.push(one);
          for (let step = 0; step < (stepsOf.get(one.id) ?? 1); step++) {
            enter(one.id, one.keys, one.shared);
            await tick();
            leave(one.id, one.keys);
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
          leave(name, keys);
          finished.push(name);
          release();
        };
        for (const [at, { keys, reads, isSync, steps, pause }] of plan.entries()) {
          if (isSync) work.push(sync(`s${at}`, keys));
          else {
            stepsOf.set(`o${at}`, steps);
            queues.add(entry(at, keys, at, keys.slice(0, reads)));
            pump();
          }
          if (pause) await tick();
        }
        for (let round = 0; round < 500 && finished.length < plan.length; round++) await tick();
        expect(finished).toHaveLength(plan.length);
        await Promise.all(work);
        for (const key of ["a", "b", "c", "d"]) {
          const onKey = started.filter(({ keys }) => keys.includes(key));
          for (const [at, later] of onKey.entries())
            for (const earlier of onKey.slice(0, at)) {
              const bothRead = [earlier, later].every(({ shared }) => shared?.includes(key));
              if (!bothRead) expect(earlier.sequence).toBeLessThan(later.sequence);
            }
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

  it("readers run together; who changes waits for them, and those behind wait for it", () => {
    const queues = new ResourceQueues(() => {});
    const reader = (sequence: number): QueueEntry => entry(sequence, ["t", `c${sequence}`], sequence, ["t"]);
    for (const one of [reader(1), reader(2), entry(3, ["t"]), reader(4)]) queues.add(one);
    expect(queues.take()?.id).toBe("o1");
    expect(queues.take()?.id).toBe("o2");
    expect(queues.take()).toBeUndefined();
    queues.release(reader(1));
    expect(queues.holderOf("t")?.id).toBe("o2");
    expect(queues.take()).toBeUndefined();
    queues.release(reader(2));
    expect(queues.take()?.id).toBe("o3");
    expect(queues.take()).toBeUndefined();
    queues.release(entry(3, ["t"]));
    expect(queues.take()?.id).toBe("o4");
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
