// What every Journal must do.
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import type { Journal } from "../operation/journal.ts";
import type { OperationRecord } from "../operation/record.ts";

export interface JournalTarget {
  /** A journal of another process on the same storage. */
  readonly another: () => Journal;
  readonly close: () => Promise<void>;
}

const never = new AbortController().signal;

export function testRecord(sequence: number, over: Partial<OperationRecord> = {}): OperationRecord {
  return {
    id: `T:${sequence}`,
    sequence,
    order: sequence,
    type: "test",
    resources: [`vm/${sequence}`],
    args: { text: "ä", list: [1, null] },
    actor: "joe@pve",
    state: "queued",
    createdAt: 1_000,
    steps: [],
    data: {},
    warnings: 0,
    ...over,
  };
}

export function journalConformance(name: string, open: () => Promise<JournalTarget>): void {
  describe(`Journal conformance: ${name}`, () => {
    let target: JournalTarget;
    beforeEach(async () => {
      target = await open();
    });
    afterEach(() => target.close());

    it("gives back what was written, in order, to the next owner", async () => {
      const first = await target.another().claim("a", never);
      expect(await first.load()).toEqual({ records: [], lastSequence: 0 });
      const records = [3, 1, 2, 40].map((n) => testRecord(n));
      await Promise.all(records.map((record) => first.write(record)));
      const done = testRecord(2, { state: "done", steps: [{ name: "s", state: "done" }] });
      await first.write(done);
      await first.release();
      const second = await target.another().claim("b", never);
      expect(await second.load()).toEqual({
        records: [testRecord(1), done, testRecord(3), testRecord(40)],
        lastSequence: 40,
      });
      await second.release();
    });

    it("keeps the last of many writes to one record", async () => {
      const session = await target.another().claim("a", never);
      const writes = Array.from({ length: 50 }, (_, n) => session.write(testRecord(1, { warnings: n })));
      await Promise.all(writes);
      expect((await session.load()).records).toEqual([testRecord(1, { warnings: 49 })]);
      await session.release();
    });

    it("never gives a number twice, even when everything was removed", async () => {
      const session = await target.another().claim("a", never);
      const numbers = Array.from({ length: 120 }, (_, n) => n + 1);
      await Promise.all(numbers.map((n) => session.write(testRecord(n))));
      await session.remove(numbers);
      await session.release();
      const next = await target.another().claim("a", never);
      expect(await next.load()).toEqual({ records: [], lastSequence: 120 });
      await next.release();
    });

    it("lets the same owner in at once and refuses its former self", async () => {
      const former = await target.another().claim("a", never);
      await former.write(testRecord(1));
      const present = await target.another().claim("a", never);
      await present.write(testRecord(2));
      await expect(former.write(testRecord(3))).rejects.toThrow();
      expect(former.lost.aborted).toBe(true);
      expect(present.lost.aborted).toBe(false);
      expect((await present.load()).records).toHaveLength(2);
      await former.release();
      await present.write(testRecord(4));
      await present.release();
    });

    it("makes another owner wait, and lets it give up", async () => {
      const first = await target.another().claim("a", never);
      const impatient = new AbortController();
      const given = target.another().claim("b", impatient.signal);
      impatient.abort();
      await expect(given).rejects.toThrow();
      await first.write(testRecord(1));
      await first.release();
    });
  });
}
