import { expect, it } from "vitest";
import { FakeClock } from "@gpve/kit/testing/fake-clock.ts";
import { silentLogger } from "@gpve/kit/logger.ts";
import type { OperationDefinition } from "@gpve/kit/operation/definition.ts";
import { OperationEngine } from "@gpve/kit/operation/engine.ts";
import { MemoryTaskLogs } from "@gpve/kit/testing/memory-task-logs.ts";
import { OrphanedJournals } from "@gpve/store/journal/orphaned-journals.ts";
import { StoreJournal } from "@gpve/store/journal/store-journal.ts";
import { openSqliteStore } from "@gpve/store/sqlite/sqlite-store.ts";
import { takeOverJournals } from "./take-over.ts";

it("undoes what a dead server had begun once its lease has ended, and gives the journal back", async () => {
  const clock = new FakeClock();
  const store = openSqliteStore({ path: ":memory:", clock });
  const did: string[] = [];
  const engineOn = (name: string, owner: string, hangs = false): OperationEngine => {
    const engine = new OperationEngine({
      journal: new StoreJournal({ store, clock, prefix: `/ops/${name}/`, leaseSeconds: 10 }),
      owner,
      clock,
      logs: new MemoryTaskLogs(),
      logger: silentLogger,
      nameOf: ({ sequence }) => `UPID:${name}:${sequence}`,
    });
    const work: OperationDefinition = {
      type: "work",
      steps: [
        { name: "a", run: () => void did.push(`${owner} a`), undo: () => void did.push(`${owner} -a`) },
        { name: "b", run: () => (hangs ? new Promise<void>(() => undefined) : undefined) },
      ],
    };
    engine.register(work);
    return engine;
  };
  const dead = engineOn("one", "one", true);
  await dead.start();
  const { upid } = await dead.submit({ type: "work", resources: [], actor: "root@pam" });
  await expect.poll(() => did).toEqual(["one a"]);

  const stop = new AbortController();
  const orphaned = new OrphanedJournals(store, "/ops/");
  const taken: string[] = [];
  let isDead = false;
  const looking = takeOverJournals(
    {
      clock,
      log: silentLogger,
      ownJournal: "two",
      orphans: async () => (isDead ? orphaned.find() : []),
      engineOn: (name) => {
        taken.push(name);
        return engineOn(name, "two");
      },
    },
    stop.signal,
  );
  // As kill -9: nobody renews the lease, nobody releases it.
  const [owner] = (await store.range({ key: new TextEncoder().encode("/ops/one/owner") })).kvs;
  await store.leaseRevoke(owner?.lease ?? 0n);
  isDead = true;
  const passing = (async () => {
    while (!stop.signal.aborted) {
      await clock.advance(500);
      await new Promise((resolve) => setTimeout(resolve, 1));
    }
  })();
  await expect.poll(() => did, { timeout: 10_000 }).toEqual(["one a", "two -a"]);
  await expect.poll(() => orphaned.find()).toEqual([]);
  stop.abort();
  await Promise.all([looking, passing]);
  expect(taken).toEqual(["one"]);
  const back = engineOn("one", "one");
  await back.start();
  expect(back.get(upid)?.state).toBe("failed");
  await back.stop();
  await store.close();
});
