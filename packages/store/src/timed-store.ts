import { given } from "@gpve/contracts/given.ts";
import type { Clock } from "@gpve/kit/clock.ts";
import type { Store } from "./port.ts";

/** Told after every operation; watches are endless and not timed. */
export type ObserveStore = (operation: string, ok: boolean, seconds: number) => void;

/** The same store with every operation's time told to a metric. */
export function timedStore(store: Store, observe: ObserveStore, clock: Clock): Store {
  const timed = async <T>(operation: string, work: () => Promise<T>): Promise<T> => {
    const start = clock.monotonic();
    let ok = false;
    try {
      const result = await work();
      ok = true;
      return result;
    } finally {
      observe(operation, ok, (clock.monotonic() - start) / 1_000);
    }
  };
  return {
    answersMayBeLost: store.answersMayBeLost ?? false,
    range: (request, options) => timed("range", () => store.range(request, options)),
    txn: (request, options) => timed("txn", () => store.txn(request, options)),
    watch: (request) => store.watch(request),
    revision: (options) => timed("revision", () => store.revision(options)),
    compact: (revision, options) => timed("compact", () => store.compact(revision, options)),
    leaseGrant: (ttlSeconds, id) => timed("leaseGrant", () => store.leaseGrant(ttlSeconds, id)),
    leaseKeepAlive: (id) => timed("leaseKeepAlive", () => store.leaseKeepAlive(id)),
    leaseRevoke: (id) => timed("leaseRevoke", () => store.leaseRevoke(id)),
    leaseStatus: (id) => timed("leaseStatus", () => store.leaseStatus(id)),
    leases: () => timed("leases", () => store.leases()),
    ...given({ upkeep: store.upkeep }),
    close: () => store.close(),
  };
}
