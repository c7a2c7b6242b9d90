// The operation journal on a real etcd: the conformance suite, and two servers of which one is cut off.
import { setTimeout as sleep } from "node:timers/promises";
import { AppError } from "@gpve/contracts/errors.ts";
import { systemClock } from "@gpve/kit/clock.ts";
import type { OperationDefinition } from "@gpve/kit/operation/definition.ts";
import { OperationEngine } from "@gpve/kit/operation/engine.ts";
import { journalConformance } from "@gpve/kit/testing/journal-conformance.ts";
import { MemoryTaskLogs } from "@gpve/kit/testing/memory-task-logs.ts";
import { StoreJournal } from "@gpve/store/journal/store-journal.ts";
import type { Store } from "@gpve/store/port.ts";
import { type EtcdCluster, etcdMissing, startEtcd } from "@gpve/store/testing/etcd-cluster.ts";
import { afterAll, beforeAll, describe, expect, it } from "vitest";

if (etcdMissing !== undefined) console.error(`SKIPPED operations-etcd: ${etcdMissing}`);

const LEASE_SECONDS = 3;

/** A store that a network cut keeps from its server. */
function cuttable(store: Store): { readonly store: Store; cut: boolean } {
  const link = { cut: false };
  const through = async <T>(call: () => Promise<T>): Promise<T> => {
    if (link.cut) throw new AppError("store.unavailable", "cut off");
    return call();
  };
  return Object.assign(link, {
    store: {
      range: (...args) => through(() => store.range(...args)),
      txn: (...args) => through(() => store.txn(...args)),
      watch: (request) => store.watch(request),
      revision: (...args) => through(() => store.revision(...args)),
      compact: (...args) => through(() => store.compact(...args)),
      leaseGrant: (...args) => through(() => store.leaseGrant(...args)),
      leaseKeepAlive: (...args) => through(() => store.leaseKeepAlive(...args)),
      leaseRevoke: (...args) => through(() => store.leaseRevoke(...args)),
      leaseStatus: (...args) => through(() => store.leaseStatus(...args)),
      leases: () => through(() => store.leases()),
      close: () => store.close(),
    } satisfies Store,
  });
}

describe.skipIf(etcdMissing !== undefined)("operations on etcd", () => {
  let cluster: EtcdCluster;
  let stores: Store[];
  beforeAll(async () => {
    cluster = await startEtcd({ members: 1 });
    stores = [];
  });
  afterAll(async () => {
    for (const store of stores) await store.close();
    await cluster.stop();
  });

  let prefixes = 0;
  journalConformance("etcd, lease", async () => {
    const store = cluster.open();
    const prefix = `/conformance/${++prefixes}/`;
    return {
      another: () => new StoreJournal({ store, clock: systemClock, prefix, leaseSeconds: LEASE_SECONDS }),
      close: () => store.close(),
    };
  });

  it("a server that is cut off stops at once; another undoes what it had begun, exactly once", async () => {
    const trace: string[] = [];
    const open = (name: string) => {
      const inner = cluster.open();
      stores.push(inner);
      const link = cuttable(inner);
      const definition: OperationDefinition = {
        type: "long",
        steps: [
          { name: "a", run: () => void trace.push(`${name} a`), undo: () => void trace.push(`${name} -a`) },
          {
            name: "b",
            run: async (ctx) => {
              trace.push(`${name} b`);
              await systemClock.sleep(60_000, ctx.signal).catch(() => trace.push(`${name} aborted`));
            },
            undo: () => void trace.push(`${name} -b`),
          },
        ],
      };
      const engine = new OperationEngine({
        journal: new StoreJournal({
          store: link.store,
          clock: systemClock,
          prefix: "/shared/",
          leaseSeconds: LEASE_SECONDS,
        }),
        owner: name,
        clock: systemClock,
        logs: new MemoryTaskLogs(),
        logger: { warn: () => {}, error: () => {} },
        nameOf: ({ sequence }) => `T:${sequence}`,
      });
      engine.register(definition);
      return { link, engine };
    };
    const [one, two] = [open("one"), open("two")];
    await one.engine.start();
    const starting = two.engine.start();
    const { upid } = await one.engine.submit({ type: "long", resources: ["x"], actor: "root@pam" });
    while (!trace.includes("one b")) await sleep(5);

    one.link.cut = true;
    await starting;
    expect((await two.engine.wait(upid)).state).toBe("failed");
    expect(trace).toEqual(["one a", "one b", "one aborted", "two -b", "two -a"]);

    one.link.cut = false;
    await expect(
      one.engine.submit({ type: "long", resources: ["x"], actor: "root@pam" }),
    ).rejects.toMatchObject({ code: "store.unavailable" });
    await two.engine.stop();
    // The first owner is back as soon as the second has gone.
    while (one.engine.get(upid)?.state !== "failed") await sleep(20);
    await one.engine.stop();
  });
});
