// Keeps a node's lease: a sign of life every two seconds, and with the lease the deadline of its HA-managed guests moved
// on. Where it cannot be renewed they end at their deadline, by this machine's own clock.
//
//   idle ──wish──> held ──no renewal until the deadline──> stopped ──renewed──> held
//     ^              │  └──somebody else has it──> stopped ──free again, wished──> held
//     └──wish ends───┘
import { isAppError, messageOf } from "@gpve/contracts/errors.ts";
import {
  evidenceCollection,
  evidenceId,
  managerCollection,
  MANAGER_STATUS_ID,
} from "@gpve/domain/ha/collections.ts";
import type { GuardedGuests, LeaseReport, Watchdog } from "@gpve/domain/ha/fencing.ts";
import type { ManagerStatus } from "@gpve/domain/ha/model.ts";
import { decodeLease, leaseKey, leaseTimes, nextLease, type NodeLease } from "@gpve/domain/ha/node-lease.ts";
import type { Clock } from "@gpve/kit/clock.ts";
import type { Logger } from "@gpve/kit/logger.ts";
import { every } from "@gpve/kit/every.ts";
import type { KeyValue, Op, Store } from "@gpve/store/port.ts";

/** Where leases are: everything about them is decided by comparing revisions. */
export type LeaseStore = Pick<Store, "txn">;

export interface LeaseKeeperDeps {
  readonly node: string;
  readonly store: LeaseStore;
  readonly clock: Clock;
  readonly log: Logger;
  /** Milliseconds since this machine was booted, sleep included. */
  readonly bootMs: () => number;
  readonly guests: GuardedGuests;
  readonly watchdog: Watchdog;
  /** Whether the agent wants the lease. */
  readonly wished: () => boolean;
  /** True while nobody cares for signs of life: then none are given. */
  readonly isIdle?: () => boolean;
  readonly report: (report: LeaseReport) => void;
}

/** How often wish and deadline are looked at. */
const LOOK_MS = 200;
/** A renewal that took longer feeds no watchdog: that would bite later than the lease passes on. */
const SLOW_MS = 2_000;
const MAX_EVIDENCE = 20;
const text = new TextDecoder();
const bytes = (value: string): Uint8Array => new TextEncoder().encode(value);

export class LeaseKeeper {
  readonly #deps: LeaseKeeperDeps;
  #known: { readonly lease: NodeLease | undefined; readonly revision: number } | undefined;
  #mayTake = false;
  #held = false;
  #deadline = 0;
  #renewed = 0;
  #askedAt = Number.NEGATIVE_INFINITY;
  #said: { readonly at: number; readonly text: string }[] = [];
  #count = 0;
  #isStopped = true;

  constructor(deps: LeaseKeeperDeps) {
    this.#deps = deps;
  }

  /** Until the signal fires. What it leaves behind, its deadline ends. */
  async run(signal: AbortSignal): Promise<void> {
    let asking: Promise<void> | undefined;
    await every(LOOK_MS, { clock: this.#deps.clock, signal }, async () => {
      const due = this.#deps.bootMs() - this.#askedAt >= leaseTimes.renewMs || this.#wishChanged();
      const isAsked = this.#held || this.#deps.wished() || this.#deps.isIdle?.() !== true;
      if (due && isAsked && asking === undefined) {
        this.#askedAt = this.#deps.bootMs();
        asking = this.#renew().finally(() => (asking = undefined));
      }
      await this.#look();
    });
    await asking;
  }

  /** Gives it up for good: guests end, the watchdog is told that nothing needs it, others need not wait. */
  async release(): Promise<void> {
    const wasHeld = this.#held;
    this.#held = false;
    if (wasHeld) await this.#stopGuests("the fence process of this node was asked to end");
    if (this.#isStopped) this.#deps.watchdog.disarm();
    if (wasHeld) await this.#write(false).catch((err: unknown) => this.#unreachable(err));
    this.#tell();
  }

  #wishChanged(): boolean {
    const { wished, bootMs } = this.#deps;
    const soon = bootMs() - this.#askedAt >= LOOK_MS * 2;
    return soon && wished() !== this.#held && (this.#held || this.#mayTake);
  }

  async #renew(): Promise<void> {
    const before = this.#deps.bootMs();
    try {
      if (await this.#write(this.#deps.wished())) this.#confirmed(before);
    } catch (err) {
      this.#unreachable(err);
      // There are guests to lose: the next try waits for nothing.
      if (this.#held) this.#askedAt = Number.NEGATIVE_INFINITY;
    }
    this.#tell();
  }

  #confirmed(before: number): void {
    const { bootMs, guests, watchdog, wished } = this.#deps;
    this.#renewed = before;
    if (this.#known?.lease?.holder === "node") {
      const deadline = before + leaseTimes.stopMs;
      // Too late is too late: what ended stays ended until a renewal is in time.
      if (deadline <= bootMs()) return;
      if (!this.#held) this.#say(`this node holds the lease with token ${this.#known.lease.token}`);
      this.#held = true;
      this.#isStopped = false;
      this.#deadline = deadline;
      guests.setDeadline(deadline);
      if (bootMs() - before < SLOW_MS) watchdog.feed();
      return;
    }
    if (this.#held && !wished()) {
      this.#held = false;
      this.#isStopped = true;
      this.#say("this node gave its lease back");
      watchdog.disarm();
    }
  }

  /** True when a quorum confirmed it. */
  async #write(hold: boolean): Promise<boolean> {
    const { node, store, clock } = this.#deps;
    for (let attempt = 0; attempt < 4; attempt++) {
      if (this.#known === undefined || attempt > 0) await this.#read();
      const known = this.#known;
      if (known === undefined) return false;
      // Guests of an earlier time must be gone before the lease may be had again.
      const mayTake = this.#mayTake && (known.lease?.holder === "node" || (await this.#nothingLeft()));
      const next = nextLease(node, known.lease, { hold, mayTake }, clock.now());
      const key = bytes(leaseKey(node));
      const evidence = this.#evidence();
      const answer = await store.txn({
        compare: [{ key, target: "modRevision", result: "equal", modRevision: known.revision }],
        success: [{ type: "put", key, value: bytes(JSON.stringify(next)) }, ...evidence.ops],
      });
      if (answer.succeeded) {
        this.#known = { lease: next, revision: answer.revision };
        this.#said.splice(0, evidence.count);
        if (next.holder !== "node") await this.#read();
        return true;
      }
      await this.#read();
      await this.#lostTo();
    }
    return false;
  }

  async #lostTo(): Promise<void> {
    const holder = this.#known?.lease?.holder;
    if (!this.#held || holder === "node") return;
    this.#held = false;
    await this.#stopGuests(`the lease of this node is held by ${holder ?? "nobody"} now`);
  }

  /** The lease, and whether this node may have it: from the manager only when it has said what became of the guests. */
  async #read(): Promise<void> {
    const { node, store } = this.#deps;
    const status = bytes(`${managerCollection.prefix}${MANAGER_STATUS_ID}`);
    const { responses } = await store.txn({
      compare: [],
      success: [
        { type: "range", key: bytes(leaseKey(node)) },
        { type: "range", key: status },
      ],
    });
    const [lease, manager] = responses.map((each): KeyValue | undefined =>
      each.type === "range" ? each.kvs[0] : undefined,
    );
    const stored = lease === undefined ? undefined : decodeLease(JSON.parse(text.decode(lease.value)));
    this.#known = { lease: stored, revision: lease?.modRevision ?? 0 };
    const says =
      manager === undefined ? undefined : (JSON.parse(text.decode(manager.value)) as Partial<ManagerStatus>);
    const isSettled = (says?.settled?.[node] ?? -1) >= (stored?.token ?? 0);
    this.#mayTake = says?.nodes?.[node] !== "fence" && (stored?.holder !== "manager" || isSettled);
  }

  async #look(): Promise<void> {
    const { bootMs, watchdog, guests } = this.#deps;
    if (this.#held && bootMs() >= this.#deadline) {
      this.#held = false;
      const since = ((bootMs() - this.#renewed) / 1000).toFixed(1);
      await this.#stopGuests(`the lease could not be renewed for ${since} s`);
      this.#tell();
      return;
    }
    if (this.#held || this.#isStopped) return;
    // Whatever is left keeps the watchdog hungry: it resets the machine before the lease can pass on.
    this.#isStopped = (await guests.end()).left.length === 0;
    if (this.#isStopped) watchdog.disarm();
  }

  async #stopGuests(why: string): Promise<void> {
    const { guests, watchdog } = this.#deps;
    guests.setDeadline(0);
    const { ended, left } = await guests.end();
    this.#isStopped = left.length === 0;
    // Nothing is left that a reset would have to end, and none may start before the lease is here again: a machine that was
    // only fed once more would be reset all the same, with all that is not under HA.
    if (this.#isStopped) watchdog.disarm();
    const names = [...ended, ...left].join(", ");
    this.#say(`${why}: ${names === "" ? "no guest under HA ran here" : `ended ${names}`}`);
    if (left.length > 0) this.#say(`could not end ${left.join(", ")}: the watchdog has to`);
  }

  async #nothingLeft(): Promise<boolean> {
    return (await this.#deps.guests.end()).left.length === 0;
  }

  #unreachable(err: unknown): void {
    this.#known = undefined;
    const { log } = this.#deps;
    const level = isAppError(err, "store.unavailable") ? "debug" : "warn";
    log[level]({ err: messageOf(err) }, "the lease of this node was not renewed");
  }

  #say(line: string): void {
    const { log, clock } = this.#deps;
    log.info({}, line);
    this.#said.push({ at: clock.now(), text: line });
    this.#said.splice(0, this.#said.length - MAX_EVIDENCE);
  }

  #evidence(): { readonly ops: readonly Op[]; readonly count: number } {
    const { node } = this.#deps;
    const count = this.#said.length;
    const ops = this.#said.map(({ at, text: line }): Op => {
      const key = `${evidenceCollection.prefix}${evidenceId(node, at, this.#count++ % 1_000_000)}`;
      const value = { at, by: node, role: "fence", lines: [{ level: "notice", text: line }] };
      return { type: "put", key: bytes(key), value: bytes(JSON.stringify(value)) };
    });
    return { ops, count };
  }

  #tell(): void {
    this.#deps.report({
      held: this.#held,
      token: this.#known?.lease?.token ?? 0,
      deadline: this.#deadline,
      renewed: this.#renewed,
    });
  }
}
