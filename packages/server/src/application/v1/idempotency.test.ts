import { beforeEach, describe, expect, it } from "vitest";
import { FakeClock } from "@gpve/kit/testing/fake-clock.ts";
import { MemoryRecords } from "../../testing/memory-records.ts";
import { Idempotency, idempotencyCollection, idempotentRequest } from "./idempotency.ts";

const request = (key = "k", body: unknown = {}) => idempotentRequest(key, "joe@pve", "POST", "/x", body);

describe("work under an idempotency key", () => {
  let records: MemoryRecords;
  let clock: FakeClock;
  let idempotency: Idempotency;
  let runs: number;
  const run = () => Promise.resolve(`result ${++runs}`);
  beforeEach(() => {
    records = new MemoryRecords();
    clock = new FakeClock();
    idempotency = new Idempotency(records, clock);
    runs = 0;
  });

  it("runs once, for a day", async () => {
    expect(await idempotency.once(request(), run)).toBe("result 1");
    expect(await idempotency.once(request(), run)).toBe("result 1");
    expect(await idempotency.once(undefined, run)).toBe("result 2");
    await expect(idempotency.once(request("k", { other: 1 }), run)).rejects.toThrow(/another request/);
    await clock.advance(25 * 3_600_000);
    expect(await idempotency.once(request(), run)).toBe("result 3");
  });

  it("is refused while the first is at work, and taken over when that died", async () => {
    const never = idempotency.once(request(), () => new Promise<string>(() => undefined));
    void never;
    await clock.advance(1_000);
    await expect(idempotency.once(request(), run)).rejects.toThrow(/being worked on/);
    await clock.advance(61_000);
    expect(await idempotency.once(request(), run)).toBe("result 1");
  });

  it("may be tried again after it failed", async () => {
    await expect(idempotency.once(request(), () => Promise.reject(new Error("no")))).rejects.toThrow("no");
    expect(await idempotency.once(request(), run)).toBe("result 1");
  });

  it("keeps no secret answer", async () => {
    expect(await idempotency.once(request(), run, { secret: true })).toBe("result 1");
    expect(JSON.stringify(records.collection(idempotencyCollection).list())).not.toContain("result 1");
    await expect(idempotency.once(request(), run, { secret: true })).rejects.toThrow(/shown once/);
  });

  it("is swept away after its day", async () => {
    await idempotency.once(request("a"), run);
    await clock.advance(23 * 3_600_000);
    await idempotency.sweep();
    await idempotency.once(request("b"), run);
    await clock.advance(2 * 3_600_000);
    await idempotency.sweep();
    await idempotency.sweep();
    expect(records.collection(idempotencyCollection).list()).toHaveLength(1);
  });

  it("refuses keys and records that are none", () => {
    for (const key of ["", " ", "a b", "ü", "x".repeat(300)])
      expect(() => request(key)).toThrow(/Idempotency-Key/);
    expect(() => idempotencyCollection.decode({ request: 1 })).toThrow();
    expect(idempotencyCollection.decode({ request: "r", at: 1 })).toEqual({ request: "r", at: 1 });
  });
});
