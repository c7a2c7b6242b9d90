// Pools: named sets of guests and storages that permissions can be given on. They nest up to three levels.
import { alreadyThere, missing, refused } from "@gpve/domain/request/failures.ts";
import type { GuestType } from "@gpve/domain/guest/guest-kinds.ts";
import { permissionDenied } from "@gpve/domain/access/access-view.ts";
import { listedNames } from "@gpve/domain/access/ids.ts";
import { requirePermissionModify } from "@gpve/domain/access/permission-check.ts";
import { byText, sortedUnique } from "@gpve/domain/access/sorting.ts";
import type { Pool } from "@gpve/domain/access/types.ts";
import type { RequestContext } from "@gpve/domain/request/context.ts";
import type { Records, Tx } from "@gpve/store/records/port.ts";
import type { AccessDirectory } from "@gpve/domain/access/access-directory.ts";
import { removeAclEntries } from "../access/acl.ts";
import { poolsDef, usersDef } from "@gpve/domain/access/collections.ts";
import { quotasDef, removeQuotasOf } from "../quota/quota-records.ts";
import { vclusterCollection } from "@gpve/domain/vcluster/vcluster-record.ts";
import { prefixed } from "../access/prefixed.ts";

export type ResourceRow = Readonly<Record<string, unknown>>;

/** The row of /cluster/resources for one guest or storage; undefined = it does not exist. */
export type ResourceRowOf = (kind: "vm" | "storage", id: string) => ResourceRow | undefined;

export interface PoolsDeps {
  readonly records: Records;
  readonly directory: AccessDirectory;
  readonly resourceRow: ResourceRowOf;
  /** Part of putting guests into pools (vmid -> pool): throws where a quota has no room. Absent: nobody is bounded. */
  readonly requireRoom: (tx: Tx, moves: ReadonlyMap<number, string>) => void;
}

export interface PoolChange {
  readonly comment?: string | undefined;
  readonly vms?: string | undefined;
  readonly storage?: string | undefined;
  readonly remove?: boolean | undefined;
  readonly allowMove?: boolean | undefined;
}

export class Pools {
  readonly #deps: PoolsDeps;

  constructor(deps: PoolsDeps) {
    this.#deps = deps;
  }

  list(ctx: RequestContext): Pool[] {
    return [...this.#deps.directory.model().pools.values()]
      .filter(({ poolid }) => ctx.access.has(`/pool/${poolid}`, ["Pool.Audit"]))
      .toSorted((a, b) => byText(a.poolid, b.poolid));
  }

  /** By name in the query, where no path can have been judged. */
  show(poolid: string, ctx: RequestContext): Pool {
    ctx.access.require(`/pool/${poolid}`, ["Pool.Audit"]);
    return this.get(poolid);
  }

  get(poolid: string): Pool {
    const pool = this.#deps.directory.model().pools.get(poolid);
    if (pool === undefined) throw noSuchPool(poolid);
    return pool;
  }

  /** Members that still exist, as resource rows. */
  members(pool: Pool, type?: GuestType | "storage"): ResourceRow[] {
    const { resourceRow } = this.#deps;
    const rows: ResourceRow[] = [];
    for (const vmid of type === "storage" ? [] : pool.vms) {
      const row = resourceRow("vm", String(vmid));
      if (row !== undefined && (type === undefined || row["type"] === type)) rows.push(row);
    }
    for (const storage of type === undefined || type === "storage" ? pool.storage : []) {
      const row = resourceRow("storage", storage);
      if (row !== undefined) rows.push(row);
    }
    return rows;
  }

  create(poolid: string, comment: string | undefined): Promise<void> {
    return prefixed("create pool failed", () =>
      this.#deps.records.transact((tx) => {
        if (tx.get(poolsDef, poolid) !== undefined) throw alreadyThere(`pool '${poolid}' already exists`);
        const parent = parentOf(poolid);
        if (parent !== undefined && tx.get(poolsDef, parent) === undefined) {
          throw missing(`parent '${parent}' of pool '${poolid}' does not exist`);
        }
        tx.put(poolsDef, poolid, { poolid, ...textOf(comment), vms: [], storage: [] });
      }),
    );
  }

  update(poolid: string, change: PoolChange, ctx: RequestContext): Promise<void> {
    return prefixed("update pools failed", () =>
      this.#deps.records.transact((tx) => {
        const entry = tx.get(poolsDef, poolid);
        if (entry === undefined) throw noSuchPool(poolid);
        const { comment, ...kept } = entry.value;
        const vms = new Set(kept.vms);
        const storage = new Set(kept.storage);
        const moves = new Map<number, string>();
        for (const text of listedNames(change.vms)) {
          const vmid = Number(text);
          requirePermissionModify(ctx.access, `/vms/${vmid}`);
          if (change.remove === true) {
            removeVm(vms, vmid);
            requireMayLeave(tx, vmid, { from: poolid }, ctx.access);
          } else {
            addVm(tx, poolid, vms, vmid, { allowMove: change.allowMove === true, access: ctx.access });
            moves.set(vmid, poolid);
          }
        }
        if (moves.size > 0) this.#deps.requireRoom(tx, moves);
        for (const id of listedNames(change.storage)) {
          requirePermissionModify(ctx.access, `/storage/${id}`);
          if (storage.has(id) !== (change.remove === true)) {
            throw refused(
              change.remove === true
                ? `Storage '${id}' is not a pool member`
                : `Storage '${id}' is already a pool member`,
            );
          }
          if (change.remove === true) storage.delete(id);
          else storage.add(id);
        }
        tx.put(poolsDef, poolid, {
          ...kept,
          ...textOf(change.comment ?? comment),
          vms: ascending(vms),
          storage: sortedUnique(storage),
        });
      }),
    );
  }

  /** Only an empty pool goes; members that no longer exist do not count. */
  remove(poolid: string): Promise<void> {
    return prefixed("delete pool failed", () =>
      this.#deps.records.transact((tx) => {
        const { resourceRow } = this.#deps;
        const entry = tx.get(poolsDef, poolid);
        if (entry === undefined) throw noSuchPool(poolid);
        const child = tx.list(poolsDef).find(({ id }) => id.startsWith(`${poolid}/`));
        const cluster = tx.list(vclusterCollection).find(({ value }) => value.tenant === poolid);
        const notEmpty = (what: string): Error => refused(`pool '${poolid}' is not empty (contains ${what})`);
        if (child !== undefined) throw notEmpty(`pool '${child.id}'`);
        if (cluster !== undefined) throw notEmpty(`virtual cluster '${cluster.id}'`);
        const { vms, storage } = entry.value;
        const vm = vms.find((vmid) => resourceRow("vm", String(vmid)) !== undefined);
        if (vm !== undefined) throw notEmpty(`VM ${vm}`);
        const store = storage.find((id) => resourceRow("storage", id) !== undefined);
        if (store !== undefined) throw notEmpty(`storage '${store}'`);
        const user = tx.list(usersDef).find(({ value }) => value.tenant === poolid);
        if (user !== undefined) throw notEmpty(`user '${user.id}'`);
        tx.delete(poolsDef, poolid);
        removeQuotasOf(tx, poolid);
        removeAclEntries(tx, ({ path }) => path === `/pool/${poolid}`);
      }),
    );
  }
}

/** Part of creating a guest in a pool. */
export function addGuestToPool(tx: Tx, vmid: number, poolid: string): void {
  const entry = tx.get(poolsDef, poolid);
  if (entry === undefined) throw noSuchPool(poolid);
  if (entry.value.vms.includes(vmid)) return;
  tx.put(poolsDef, poolid, { ...entry.value, vms: ascending([...entry.value.vms, vmid]) });
}

/** Part of destroying a guest: nothing may be inherited by the next one with this id. */
export function removeGuestAccess(tx: Tx, vmid: number): void {
  for (const { id, value } of tx.list(poolsDef)) {
    if (!value.vms.includes(vmid)) continue;
    tx.put(poolsDef, id, { ...value, vms: value.vms.filter((other) => other !== vmid) });
  }
  removeAclEntries(tx, ({ path }) => path === `/vms/${vmid}`);
}

/** Part of removing a storage. */
export function removeStorageAccess(tx: Tx, storage: string): void {
  for (const { id, value } of tx.list(poolsDef)) {
    if (!value.storage.includes(storage)) continue;
    tx.put(poolsDef, id, { ...value, storage: value.storage.filter((other) => other !== storage) });
  }
  removeAclEntries(tx, ({ path }) => path === `/storage/${storage}`);
}

function addVm(
  tx: Tx,
  poolid: string,
  vms: Set<number>,
  vmid: number,
  { allowMove, access }: { allowMove: boolean; access: RequestContext["access"] },
): void {
  if (vms.has(vmid)) throw refused(`VM ${vmid} is already a pool member`);
  const other = tx.list(poolsDef).find(({ id, value }) => id !== poolid && value.vms.includes(vmid));
  if (other !== undefined) {
    if (!allowMove)
      throw refused(`VM ${vmid} belongs already to pool '${other.id}' and allow-move is not set`);
    access.require(`/pool/${other.id}`, ["Pool.Allocate"]);
    requireMayLeave(tx, vmid, { from: other.id, to: poolid }, access);
    tx.put(poolsDef, other.id, { ...other.value, vms: other.value.vms.filter((id) => id !== vmid) });
  }
  vms.add(vmid);
}

function removeVm(vms: Set<number>, vmid: number): void {
  if (!vms.delete(vmid)) throw refused(`VM ${vmid} is not a pool member`);
}

/**
 * A guest that leaves a tenant with a quota is out of its bounds, and its permissions go with it. So only who may set that
 * quota lets it go: whoever has Pool.Allocate above the tenant.
 */
function requireMayLeave(
  tx: Tx,
  vmid: number,
  { from, to }: { readonly from: string; readonly to?: string },
  access: RequestContext["access"],
): void {
  const left = withAncestors(from).filter((pool) => to === undefined || !withAncestors(to).includes(pool));
  for (const { id, value } of tx.list(quotasDef)) {
    if (!left.includes(value.tenant)) continue;
    const parent = parentOf(value.tenant);
    const path = parent === undefined ? "/pool" : `/pool/${parent}`;
    if (access.has(path, ["Pool.Allocate"])) continue;
    throw permissionDenied(
      `${path}, Pool.Allocate: VM ${vmid} would leave tenant '${value.tenant}', which quota '${id}' bounds`,
    );
  }
}

function withAncestors(poolid: string): string[] {
  const parent = parentOf(poolid);
  return parent === undefined ? [poolid] : [poolid, ...withAncestors(parent)];
}

function parentOf(poolid: string): string | undefined {
  const border = poolid.lastIndexOf("/");
  return border === -1 ? undefined : poolid.slice(0, border);
}

function ascending(vms: Iterable<number>): number[] {
  return [...new Set(vms)].toSorted((a, b) => a - b);
}

function textOf(comment: string | undefined): { comment?: string } {
  return comment === undefined || comment === "" ? {} : { comment };
}

function noSuchPool(poolid: string): Error {
  return missing(`pool '${poolid}' does not exist`);
}
