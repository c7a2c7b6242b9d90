import type { RequestContext } from "@gpve/domain/request/context.ts";

/** Of one guest its keeper may prune the backups; of all, only who manages the storage. */
export function requirePruneAccess(
  { storage, vmid }: { readonly storage: string; readonly vmid?: number },
  { access }: Pick<RequestContext, "access">,
): void {
  if (vmid === undefined) return access.require(`/storage/${storage}`, ["Datastore.Allocate"]);
  access.require(`/storage/${storage}`, ["Datastore.AllocateSpace"]);
  access.require(`/vms/${vmid}`, ["VM.Backup"]);
}
