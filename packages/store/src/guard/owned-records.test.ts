import { afterEach, beforeEach, expect, test } from "vitest";
import { fromUtf8, utf8 } from "../keys.ts";
import type { Op, Store } from "../port.ts";
import { openSqliteStore } from "../sqlite/sqlite-store.ts";
import { ownedTxn, type OwnedRecords } from "./owned-records.ts";

// "owner pool": whoever owns it keeps the pool that a server gave it.
const fields = (value: Uint8Array): readonly string[] => fromUtf8(value).split(" ");
const rules: OwnedRecords = {
  prefix: "/g/",
  notes: ["/gone/"],
  ownerOf: (value) => fields(value)[0],
  permits: {
    prefix: "/permits/",
    needed: (id, before) => (before === undefined ? id : undefined),
    allows: () => true,
  },
  mayBecome: (before, after) => before === undefined || fields(before)[1] === fields(after)[1],
};
const KEY = "/g/1";
const put = (value: string, key = KEY): Op => ({ type: "put", key: utf8(key), value: utf8(value) });

let store: Store;
beforeEach(async () => {
  store = openSqliteStore({ path: ":memory:" });
  await store.txn({ compare: [], success: [put("me wanted")] });
});
afterEach(() => store.close());

const revision = async (): Promise<number> =>
  (await store.range({ key: utf8(KEY) })).kvs[0]?.modRevision ?? 0;
const stored = async (): Promise<string> =>
  fromUtf8((await store.range({ key: utf8(KEY) })).kvs[0]?.value ?? utf8(""));
const from = (
  modRevision: number,
  ops: { readonly success: readonly Op[]; readonly failure?: readonly Op[] },
) =>
  ownedTxn(store, rules, "me", {
    compare: [{ key: utf8(KEY), target: "modRevision", modRevision, result: "equal" }],
    ...ops,
  });

test("says that another was faster, and not that it may not, where the peer's own record has moved on", async () => {
  const known = await revision();
  await store.txn({ compare: [], success: [put("me given")] });
  expect(await from(known, { success: [put("me wanted")] })).toMatchObject({ succeeded: false });
  expect(await stored()).toBe("me given");
  expect(await from(await revision(), { success: [put("me given")] })).toMatchObject({ succeeded: true });
});

test("says so too where the record is gone", async () => {
  const known = await revision();
  await store.txn({ compare: [], success: [{ type: "delete", key: utf8(KEY) }] });
  expect(await from(known, { success: [put("me wanted")] })).toMatchObject({ succeeded: false });
  expect(await stored()).toBe("");
});

test("refuses from what is so now, in what is done otherwise, and what is another's", async () => {
  const known = await revision();
  await store.txn({ compare: [], success: [put("me given")] });
  const refused = { code: "access.denied" };
  await expect(from(await revision(), { success: [put("me wanted")] })).rejects.toMatchObject(refused);
  const otherwise = { success: [], failure: [put("me wanted")] };
  await expect(from(known, otherwise)).rejects.toMatchObject(refused);
  const both = { success: [put("me given")], failure: [put("me wanted")] };
  await expect(from(known, both)).rejects.toMatchObject(refused);
  await expect(from(known, { success: [put("you given")] })).rejects.toMatchObject(refused);
  await store.txn({ compare: [], success: [put("you given")] });
  await expect(from(known, { success: [put("me wanted")] })).rejects.toMatchObject(refused);
  expect(await stored()).toBe("you given");
});
