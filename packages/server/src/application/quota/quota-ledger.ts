// Promises room, and takes promises back. One promise after the other in each tree of pools: every one writes the tree's
// turn, which the transaction compares, so that two servers never promise the same room. Within a server they wait for
// each other instead of trying again.
import { given } from "@gpve/contracts/given.ts";
import { leftBackupCollection } from "@gpve/domain/backup/left-backups.ts";
import { KeyedQueue } from "@gpve/kit/keyed-queue.ts";
import type { Effect } from "@gpve/domain/quota/effects.ts";
import { growth } from "@gpve/domain/quota/amounts.ts";
import { claimOf } from "@gpve/domain/quota/guest-demand.ts";
import { rootTenant, type Quota } from "@gpve/domain/quota/quota.ts";
import { leftOf, type Reservation } from "@gpve/domain/quota/reservation.ts";
import { refusals, usesOf, type Member } from "@gpve/domain/quota/usage.ts";
import { quotaExceeded } from "@gpve/domain/quota/verdict.ts";
import type { Records, Tx } from "@gpve/store/records/port.ts";
import { quotasDef, reservationsDef, turnsDef } from "./quota-records.ts";
import type { QuotaView } from "./quota-view.ts";

/** A transaction takes only so many. */
const AT_ONCE = 50;

export interface QuotaLedgerDeps {
  readonly records: Records;
  readonly view: QuotaView;
}

export interface Asked {
  /** "create VM 100". */
  readonly what: string;
  readonly effects: readonly Effect[];
  readonly origin: Pick<Reservation, "requestId" | "route" | "node" | "about" | "at" | "by">;
}

export class QuotaLedger {
  readonly #deps: QuotaLedgerDeps;
  readonly #queue = new KeyedQueue();

  constructor(deps: QuotaLedgerDeps) {
    this.#deps = deps;
  }

  /** Whether any of it is bounded. What is not costs nothing here. */
  isBounded(effects: readonly Effect[]): boolean {
    return effects.some((effect) => this.#deps.view.quotasOn(this.#poolOf(effect)).length > 0);
  }

  /** Ids of what was promised, to be given back; throws capacity.exceeded. */
  reserve({ what, effects, origin }: Asked): Promise<readonly string[]> {
    const { records } = this.#deps;
    return this.#inTurn(this.#rootsOf(effects), () =>
      records.transact((tx) => {
        // Also what changed since it was asked: the pool of a guest, or its configuration.
        const roots = this.#rootsOf(effects);
        const wanted = effects.flatMap((effect) => this.#reservation(effect, origin));
        this.#require(tx, roots, what, (before) => before, wanted);
        return wanted.map((reservation, index) => {
          const id = `${origin.requestId}.${index}`;
          tx.put(reservationsDef, id, reservation);
          return id;
        });
      }),
    );
  }

  /** Part of the transaction that puts guests into pools; throws when there is no room for them. */
  requireRoomIn(tx: Tx, moves: ReadonlyMap<number, string>): void {
    const { view } = this.#deps;
    const vmids = [...moves.keys()];
    const from = vmids.flatMap((vmid) => {
      const guest = view.guest(vmid);
      return guest === undefined ? [] : (view.poolOf(guest) ?? []);
    });
    const roots = [...new Set([...moves.values(), ...from].map(rootTenant))];
    const move = (members: readonly Member[]): readonly Member[] => [
      ...members.filter(({ vmid }) => !moves.has(vmid)),
      ...[...moves].flatMap(([vmid, pool]) => view.memberIn(vmid, pool) ?? []),
    ];
    this.#require(tx, roots, `put ${vmids.map((vmid) => `VM ${vmid}`).join(", ")} into the pool`, move, []);
  }

  /** Part of the transaction that writes a guest's priority; throws when a quota it comes under has no room for it. */
  requireRoomAt(tx: Tx, vmid: number, priority: number | undefined): void {
    const { view } = this.#deps;
    const guest = view.guest(vmid);
    const pool = guest === undefined ? undefined : view.poolOf(guest);
    // One that is not there yet is looked at when its room is promised.
    if (pool === undefined || view.priorityOf(vmid) === priority) return;
    const move = (members: readonly Member[]): readonly Member[] =>
      members.map((member) => {
        const { priority: _before, ...kept } = member;
        return member.vmid === vmid ? { ...kept, ...given({ priority }) } : member;
      });
    this.#require(tx, [rootTenant(pool)], `give VM ${vmid} the priority ${priority ?? 0}`, move, []);
  }

  /** Its work has begun. */
  async begun(ids: readonly string[], upid: string): Promise<void> {
    await this.#change(ids, (reservation) => ({ ...reservation, upid }));
  }

  /** Nobody knows whether its work has begun. */
  async lost(ids: readonly string[]): Promise<void> {
    await this.#change(ids, (reservation) => ({ ...reservation, lost: true }));
  }

  /** Nothing of it is coming, or all of it is there. */
  async giveBack(ids: readonly string[]): Promise<void> {
    await this.#change(ids, () => undefined);
  }

  /** Forgets what the facts say is over. */
  async settle(ids: readonly string[]): Promise<void> {
    const facts = this.#deps.view.facts();
    await this.#change(ids, (reservation) => leftOf(reservation, facts));
  }

  /** All of them are gone. */
  async forgetLeftBackups(ids: readonly string[]): Promise<void> {
    await this.#deps.records.transact((tx) => {
      for (const id of ids.slice(0, AT_ONCE)) tx.delete(leftBackupCollection, id);
    });
  }

  #require(
    tx: Tx,
    roots: readonly string[],
    what: string,
    move: (members: readonly Member[]) => readonly Member[],
    wanted: readonly Reservation[],
  ): void {
    const { view } = this.#deps;
    const quotas = tx.list(quotasDef).map(({ value }) => value);
    const bounded = roots.filter((root) => quotas.some((quota) => rootTenant(quota.tenant) === root));
    for (const root of bounded)
      tx.put(turnsDef, root, { turn: (tx.get(turnsDef, root)?.value.turn ?? 0) + 1 });
    const touched = quotas.filter((quota) => bounded.includes(rootTenant(quota.tenant)));
    if (touched.length === 0) return;
    const members = bounded.flatMap((root) => view.members(root));
    const standing = view.reservations();
    const found = refusals(
      touched,
      usesOf(members, standing),
      usesOf(inTrees(move(members), bounded), [...standing, ...wanted]),
    );
    if (found.length > 0) throw quotaExceeded(what, found);
  }

  #reservation(effect: Effect, origin: Asked["origin"]): readonly Reservation[] {
    const { view } = this.#deps;
    const pool = this.#poolOf(effect);
    const quotas = view.quotasOn(pool);
    if (pool === undefined || quotas.length === 0) return [];
    const { vmid, type, tags, isNew } = effect;
    const guest = isNew === undefined ? view.guest(vmid) : undefined;
    const before = guest === undefined ? { demand: {}, tags: [] } : claimOf(guest);
    const demand = growth(before.demand, effect.demand);
    const starts = effect.starts === true && quotas.some(looksAtRunning);
    const isSame = Object.keys(demand).length === 0 && tags.join(";") === before.tags.join(";");
    if (isNew === undefined && isSame && !starts) return [];
    return [
      {
        ...origin,
        vmid,
        type,
        demand,
        tags,
        isNew: isNew !== undefined,
        starts,
        ...(isNew === undefined ? {} : { pool, ...given({ priority: view.priorityOf(vmid) }) }),
      },
    ];
  }

  #poolOf({ isNew, vmid }: Effect): string | undefined {
    if (isNew !== undefined) return isNew.pool;
    const guest = this.#deps.view.guest(vmid);
    return guest === undefined ? undefined : this.#deps.view.poolOf(guest);
  }

  #rootsOf(effects: readonly Effect[]): readonly string[] {
    const pools = effects.flatMap((effect) => this.#poolOf(effect) ?? []);
    return [...new Set(pools.map(rootTenant))].toSorted();
  }

  /** Always in the same order, so that nobody waits in a circle. */
  #inTurn<T>(roots: readonly string[], work: () => Promise<T>): Promise<T> {
    const [first, ...rest] = roots;
    return first === undefined ? work() : this.#queue.run(first, () => this.#inTurn(rest, work));
  }

  async #change(
    ids: readonly string[],
    change: (reservation: Reservation) => Reservation | undefined,
  ): Promise<void> {
    if (ids.length === 0) return;
    await this.#deps.records.transact((tx) => {
      for (const id of ids) {
        const reservation = tx.get(reservationsDef, id)?.value;
        if (reservation === undefined) continue;
        const next = change(reservation);
        if (next === undefined) tx.delete(reservationsDef, id);
        else if (next !== reservation) tx.put(reservationsDef, id, next);
      }
    });
  }
}

function looksAtRunning({ requests, scope }: Quota): boolean {
  return Object.keys(requests).length > 0 || scope?.state !== undefined;
}

function inTrees(members: readonly Member[], roots: readonly string[]): readonly Member[] {
  return members.filter(({ pool }) => roots.includes(rootTenant(pool)));
}
