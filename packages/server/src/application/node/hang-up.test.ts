import { beforeEach, describe, expect, test } from "vitest";
import { FakeClock } from "@gpve/kit/testing/fake-clock.ts";
import type { Records } from "@gpve/store/records/port.ts";
import { MemoryRecords } from "../../testing/memory-records.ts";
import { nodeRecords } from "./collections.ts";
import { hangUpOnRemoved, RENEWED_GRACE_MS } from "./hang-up.ts";
import { joinedNode } from "../../testing/joined-node.ts";

let clock: FakeClock;
let records: Records;
let dropped: number[];
let stop: () => void;

const write = (name: string, labels: Record<string, string>) =>
  records.transact((tx) => {
    tx.put(nodeRecords, name, joinedNode(name, { labels }));
  });

beforeEach(() => {
  clock = new FakeClock(0);
  records = new MemoryRecords();
  dropped = [];
  const listener = { dropStrangers: () => void dropped.push(clock.monotonic()) };
  stop = hangUpOnRemoved(records.collection(nodeRecords), listener, clock);
});

describe("connections of nodes that are none any more", () => {
  test("end at once when a node is removed", async () => {
    await write("n1", {});
    await records.transact((tx) => tx.delete(nodeRecords, "n1"));
    await expect.poll(() => dropped).toEqual([0]);
  });

  test("end a while after a certificate was renewed, also when records keep changing", async () => {
    for (let second = 0; second < 25; second++) {
      await write("n1", { second: String(second) });
      await clock.advance(1_000);
    }
    expect(dropped[0]).toBe(RENEWED_GRACE_MS);
    expect(dropped).toHaveLength(2);
  });

  test("of one node have their own time when another changes", async () => {
    await write("n1", {});
    await clock.advance(6_000);
    await write("n2", {});
    await clock.advance(20_000);
    expect(dropped).toEqual([RENEWED_GRACE_MS, 6_000 + RENEWED_GRACE_MS]);
  });

  test("stay when the server stops to look", async () => {
    await write("n1", {});
    stop();
    await clock.advance(60_000);
    await records.transact((tx) => tx.delete(nodeRecords, "n1"));
    expect(dropped).toEqual([]);
  });
});
