import { FakeClock } from "@gpve/kit/testing/fake-clock.ts";
import { expect, test } from "vitest";
import { utf8 } from "../keys.ts";
import type { Store } from "../port.ts";
import { openSqliteStore } from "../sqlite/sqlite-store.ts";
import { GuardedStores } from "./guarded-stores.ts";

test("a peer that comes again has what is left of its budget, and nothing of another's", async () => {
  const store = openSqliteStore({ path: ":memory:" });
  const stores = new GuardedStores({
    store,
    clock: new FakeClock(),
    rulesOf: (peer) => ({
      peer,
      leases: `/leases/${peer}/`,
      read: ["/g/"],
      hidden: [],
      write: [`/g/${peer}/`],
      own: [`/g/${peer}/`],
    }),
    limits: { keptBytes: 1_000 },
  });
  const put = (to: Store, key: string) =>
    to.txn({ compare: [], success: [{ type: "put", key: utf8(key), value: new Uint8Array(600) }] });
  await put(stores.of("a"), "/g/a/1");
  await expect(put(stores.of("a"), "/g/a/2")).rejects.toMatchObject({ code: "store.full" });
  await expect(put(stores.of("b"), "/g/b/1")).resolves.toBeDefined();
  await expect(put(stores.of("b"), "/g/a/1")).rejects.toThrow("/g/a/1");
  await store.close();
});
