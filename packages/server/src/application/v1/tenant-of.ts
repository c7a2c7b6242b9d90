// Which tenant (pool) a guest is in.
import type { Pool } from "@gpve/domain/access/types.ts";
import type { Entry } from "@gpve/store/records/port.ts";
import { poolsDef } from "@gpve/domain/access/collections.ts";
import type { Reader } from "./adapter.ts";

/** By the list itself, which is the same one until a pool changes. */
const indexes = new WeakMap<readonly Entry<Pool>[], ReadonlyMap<number, string>>();

export function tenantOf(reader: Reader, vmid: number): string | undefined {
  const pools = reader.list(poolsDef);
  let index = indexes.get(pools);
  if (index === undefined) {
    index = new Map(pools.flatMap(({ id, value }) => value.vms.map((member) => [member, id] as const)));
    indexes.set(pools, index);
  }
  return index.get(vmid);
}

/** Guests that a change of a pool put in or took out. */
export function movedGuests(before: Pool | undefined, after: Pool | undefined): string[] {
  const [old, now] = [before?.vms ?? [], after?.vms ?? []];
  return [...new Set([...old, ...now])]
    .filter((vmid) => old.includes(vmid) !== now.includes(vmid))
    .map(String);
}
