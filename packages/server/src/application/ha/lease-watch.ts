// For how long each lease has been seen unchanged, by this server's own clock. Every server looks all the time, so that
// whoever becomes the manager need not begin to wait.
import { leaseCollection, leaseId, leaseTimes, type NodeLease } from "@gpve/domain/ha/node-lease.ts";
import type { Clock } from "@gpve/kit/clock.ts";
import type { Records } from "@gpve/store/records/port.ts";

interface Seen {
  revision: number;
  beat: number;
  /** When the record changed, and when it last was a sign of life. */
  changedAt: number;
  aliveAt: number;
}

export class LeaseWatch {
  readonly #records: Records;
  readonly #clock: Clock;
  readonly #seen = new Map<string, Seen>();
  readonly close: () => void;

  constructor(records: Records, clock: Clock) {
    this.#records = records;
    this.#clock = clock;
    const leases = records.collection(leaseCollection);
    for (const { id, value, revision } of leases.list()) this.#see(id, value, revision);
    this.close = leases.onChange((id, entry) => {
      if (entry === undefined) this.#seen.delete(id);
      else this.#see(id, entry.value, entry.revision);
    });
  }

  of(node: string): {
    readonly lease: NodeLease | undefined;
    readonly revision: number;
    readonly unchangedMs: number;
  } {
    const entry = this.#records.collection(leaseCollection).get(leaseId(node));
    const seen = this.#seen.get(leaseId(node));
    const unchangedMs = seen === undefined ? 0 : this.#clock.monotonic() - seen.changedAt;
    return { lease: entry?.value, revision: entry?.revision ?? 0, unchangedMs };
  }

  /** Since its last sign of life, also when somebody has taken its lease since then; undefined = it has none. */
  silentMs(node: string): number | undefined {
    const seen = this.#seen.get(leaseId(node));
    return seen === undefined ? undefined : this.#clock.monotonic() - seen.aliveAt;
  }

  isAlive(node: string): boolean {
    return (this.silentMs(node) ?? Infinity) < leaseTimes.awayMs;
  }

  #see(id: string, { beat }: NodeLease, revision: number): void {
    const before = this.#seen.get(id);
    const now = this.#clock.monotonic();
    // What another wrote is no sign of life of the node's.
    const aliveAt = before === undefined || before.beat !== beat ? now : before.aliveAt;
    this.#seen.set(id, { revision, beat, changedAt: now, aliveAt });
  }
}
