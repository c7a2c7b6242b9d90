import { expect, it } from "vitest";
import { FakeClock } from "@gpve/kit/testing/fake-clock.ts";
import { startCompaction } from "./compaction.ts";
import { utf8 } from "./keys.ts";
import { openSqliteStore } from "./sqlite/sqlite-store.ts";

it("forgets history older than asked for, and keeps the rest", async () => {
  const clock = new FakeClock();
  const store = openSqliteStore({ path: ":memory:", clock });
  const failures: string[] = [];
  const log = { error: (_fields: unknown, message: string) => void failures.push(message) };
  const stops = [1, 2].map(() => startCompaction(store, { clock, log, keepMs: 60_000, keepRevisions: 5 }));
  const revisions: number[] = [];
  for (let minute = 0; minute < 10; minute++) {
    for (let i = 0; i < 10; i++) {
      const { revision } = await store.txn({
        compare: [],
        success: [{ type: "put", key: utf8("/k"), value: utf8(String(i)) }],
      });
      revisions.push(revision);
    }
    await clock.advance(60_000);
  }
  const read = (index: number) => store.range({ key: utf8("/k"), revision: revisions[index] ?? 0 });
  await expect(read(10)).rejects.toMatchObject({ code: "store.compacted" });
  expect((await read(-5 + 100)).count).toBe(1);
  expect(failures).toEqual([]);
  await store.close();
  await clock.advance(60_000);
  expect(failures).not.toEqual([]);
  for (const stop of stops) stop();
});
