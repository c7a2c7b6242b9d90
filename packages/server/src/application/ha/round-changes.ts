// What one round of the manager changes, collected while it decides and committed afterwards: by whoever leads, on what
// it saw, or not at all. A round that cannot be committed never was.
import { AppError } from "@gpve/contracts/errors.ts";
import { isObject } from "@gpve/contracts/json-object.ts";
import { moveCollection, moveId } from "@gpve/domain/guest/guest-move.ts";
import { guestCollection, withOwner } from "@gpve/domain/guest/guest-record.ts";
import {
  commandCollection,
  evidenceCollection,
  evidenceId,
  managerCollection,
  managerLeaseCollection,
  MANAGER_EVIDENCE,
  MANAGER_LEASE_ID,
  MANAGER_STATUS_ID,
  type ManagerLease,
  vmidOfSid,
} from "@gpve/domain/ha/collections.ts";
import type { ManagerStatus } from "@gpve/domain/ha/model.ts";
import { leaseCollection, leaseId, takenLease } from "@gpve/domain/ha/node-lease.ts";
import type { Records, Tx } from "@gpve/store/records/port.ts";
import { nodeRecords } from "../node/collections.ts";
import { noteMove } from "../node/guest-moves.ts";

export interface TakeOver {
  readonly vmid: number;
  /** Whose it was when that was decided. */
  readonly from: string;
  readonly to: string;
}

/** A transaction has room for so many. */
const GUESTS_AT_ONCE = 30;
const EVIDENCE_KEPT = 600;
const PRUNED_AT_ONCE = 20;

export class RoundChanges {
  lead: { readonly value: ManagerLease; readonly seenRevision: number } | undefined;
  status: ManagerStatus | undefined;
  readonly leases = new Map<string, number>();
  readonly takeOvers = new Map<number, TakeOver>();
  readonly unlocked = new Set<number>();
  commands: readonly string[] = [];
  readonly lines: { level: string; text: string }[] = [];
  #leadRevision = 0;

  /** Leases first, then guests, then what is known of them: after a crash in between the next round goes on. */
  async commit(records: Records, at: number, count: number): Promise<void> {
    const { lead } = this;
    if (lead === undefined) return;
    this.#leadRevision = lead.seenRevision;
    await records.transact((tx) => {
      this.#requireLead(tx);
      tx.put(managerLeaseCollection, MANAGER_LEASE_ID, lead.value);
      for (const [node, revision] of this.leases) takeLease(tx, node, revision, at);
    });
    this.#leadRevision = records.collection(managerLeaseCollection).get(MANAGER_LEASE_ID)?.revision ?? 0;
    const guests = [...new Set([...this.takeOvers.keys(), ...this.unlocked])];
    for (let from = 0; from < guests.length; from += GUESTS_AT_ONCE)
      await records.transact((tx) => {
        this.#requireLead(tx);
        for (const vmid of guests.slice(from, from + GUESTS_AT_ONCE)) this.#moveGuest(tx, vmid);
      });
    if (this.status !== undefined) this.status = { ...this.status, settled: settledLeases(records) };
    const stored = records.collection(managerCollection).get(MANAGER_STATUS_ID)?.value;
    const isNew = this.status !== undefined && text(stored) !== text(this.status);
    if (!isNew && this.lines.length === 0 && this.commands.length === 0) return;
    const old = oldEvidence(records);
    await records.transact((tx) => {
      this.#requireLead(tx);
      if (isNew && this.status !== undefined) {
        tx.put(managerCollection, MANAGER_STATUS_ID, this.status);
        noteMoves(tx, stored, this.status, at);
      }
      for (const id of this.commands) tx.delete(commandCollection, id);
      for (const id of old) tx.delete(evidenceCollection, id);
      if (this.lines.length === 0) return;
      const by = lead.value.node;
      const evidence = { at, by, role: "manager" as const, lines: this.lines };
      tx.put(evidenceCollection, evidenceId(MANAGER_EVIDENCE, at, count), evidence);
    });
  }

  #requireLead(tx: Tx): void {
    const now = tx.get(managerLeaseCollection, MANAGER_LEASE_ID);
    if ((now?.revision ?? 0) === this.#leadRevision) return;
    throw new AppError("object.conflict", `another server manages HA now: ${now?.value.node ?? "unknown"}`);
  }

  #moveGuest(tx: Tx, vmid: number): void {
    const guest = tx.get(guestCollection, String(vmid))?.value;
    if (guest === undefined) return;
    const { from = guest.node, to = guest.node } = this.takeOvers.get(vmid) ?? {};
    // Whoever has it by now may run it.
    if (guest.node !== from && guest.node !== to)
      throw new AppError("object.conflict", `VM ${vmid} is node ${guest.node}'s meanwhile, not ${from}'s`);
    const owned = to === guest.node ? guest : withOwner(guest, to);
    const conf = this.unlocked.has(vmid) ? withoutLock(owned.conf) : owned.conf;
    tx.put(guestCollection, String(vmid), { ...owned, conf });
  }
}

function takeLease(tx: Tx, node: string, revision: number, at: number): void {
  const entry = tx.get(leaseCollection, leaseId(node));
  if ((entry?.revision ?? 0) !== revision)
    throw new AppError("object.conflict", `node ${node} has given a sign of life: its lease is its own`);
  tx.put(leaseCollection, leaseId(node), takenLease(node, entry?.value, at));
}

/** Who is told to move a guest while it runs may do so; who is told otherwise may not any more. */
function noteMoves(tx: Tx, before: ManagerStatus | undefined, after: ManagerStatus, at: number): void {
  const [old, now] = [liveMoves(before), liveMoves(after)];
  for (const [id, { vmid, uid }] of old) if (!now.has(id)) tx.delete(moveCollection, moveId(vmid, uid));
  for (const [id, { vmid, uid, from, to }] of now) {
    const known = [from, to].every((node) => tx.get(nodeRecords, node) !== undefined);
    if (!old.has(id) && known) noteMove(tx, { vmid, id: uid, from, to, at });
  }
}

function liveMoves(status: ManagerStatus | undefined) {
  const found = new Map<
    string,
    { readonly vmid: number; readonly uid: string; readonly from: string; readonly to: string }
  >();
  for (const [sid, { state, node, target, uid }] of Object.entries(status?.services ?? {})) {
    const vmid = vmidOfSid(sid);
    if (state === "migrate" && target !== undefined && target !== node)
      found.set(moveId(vmid, uid), { vmid, uid, from: node, to: target });
  }
  return found;
}

/** Whatever order its keys have. */
function text(value: unknown): string {
  return JSON.stringify(value, (_key, each: unknown) =>
    isObject(each) ? Object.fromEntries(Object.entries(each).toSorted(([a], [b]) => (a < b ? -1 : 1))) : each,
  );
}

/** Whoever leads has committed all that came of taking them; nobody else can add to it. */
function settledLeases(records: Records): Record<string, number> {
  return Object.fromEntries(
    records
      .collection(leaseCollection)
      .list()
      .flatMap(({ value }) => (value.holder === "manager" ? [[value.node, value.token] as const] : [])),
  );
}

/**
 * Of whoever has most, what the store saw first: who writes much, or says that it was in years to come, takes the place of his
 * own lines alone.
 */
function oldEvidence(records: Records): readonly string[] {
  const all = records.collection(evidenceCollection).list();
  const tooMany = Math.min(PRUNED_AT_ONCE, all.length - EVIDENCE_KEPT);
  if (tooMany <= 0) return [];
  const seen = all.toSorted((a, b) => a.createRevision - b.createRevision).map(({ id }) => id);
  const byWriter = [...Map.groupBy(seen, (id) => id.split("/")[0]).values()];
  return Array.from({ length: tooMany }, () => {
    const [most = []] = byWriter.toSorted((a, b) => b.length - a.length);
    return most.shift() ?? "";
  });
}

/** Of the current section; snapshots keep what they have. */
function withoutLock(conf: string): string {
  const section = conf.indexOf("\n[");
  const current = section < 0 ? conf : conf.slice(0, section + 1);
  return current.replace(/^lock:.*\n?/m, "") + conf.slice(current.length);
}
