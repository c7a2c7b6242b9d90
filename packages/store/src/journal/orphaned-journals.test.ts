import { afterEach, beforeEach, expect, test } from "vitest";
import { systemClock } from "@gpve/kit/clock.ts";
import type { OperationRecord } from "@gpve/kit/operation/record.ts";
import type { Store } from "../port.ts";
import { openSqliteStore } from "../sqlite/sqlite-store.ts";
import { OrphanedJournals } from "./orphaned-journals.ts";
import { StoreJournal } from "./store-journal.ts";

const root = "/gpve/operations/";
const { signal } = new AbortController();
let store: Store;
beforeEach(() => {
  store = openSqliteStore({ path: ":memory:" });
});
afterEach(() => store.close());

const claim = (name: string, owner = name) =>
  new StoreJournal({ store, clock: systemClock, prefix: `${root}${name}/` }).claim(owner, signal);
const record = (sequence: number, state: OperationRecord["state"]): OperationRecord => ({
  id: `UPID:${sequence}`,
  sequence,
  order: sequence,
  type: "work",
  resources: [],
  args: {},
  actor: "root@pam",
  state,
  createdAt: 1,
  steps: [],
  data: {},
  warnings: 0,
});

test("journals without an owner that hold unfinished work are found, and no others", async () => {
  const found = new OrphanedJournals(store, root);
  expect(await found.find()).toEqual([]);
  const [busy, idle, alive] = [await claim("busy"), await claim("idle"), await claim("alive")];
  await busy.write(record(1, "done"));
  await busy.write(record(2, "running"));
  await idle.write(record(1, "done"));
  await alive.write(record(1, "queued"));
  expect(await found.find()).toEqual([]);
  expect([await found.isOwned("alive"), await found.isOwned("nobody")]).toEqual([true, false]);
  await busy.release();
  await idle.release();
  expect(await found.find()).toEqual(["busy"]);
  expect(await found.find()).toEqual(["busy"]);
  const heir = await claim("busy", "heir");
  expect(await found.find()).toEqual([]);
  await heir.write(record(2, "failed"));
  await heir.release();
  expect(await found.find()).toEqual([]);
  // Its owner comes back, begins something and dies.
  const again = await claim("idle");
  await again.write(record(2, "running"));
  await again.release();
  expect(await found.find()).toEqual(["idle"]);
});
