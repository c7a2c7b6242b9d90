// Requests to prune backups: what would go, and who may have it go.
import { given } from "@gpve/contracts/given.ts";
import type { PveParams } from "@gpve/contracts/gen/pve-params.ts";
import type { GuestType } from "@gpve/domain/guest/guest-kinds.ts";
import type { RequestContext } from "@gpve/domain/request/context.ts";
import { parseKeepOptions } from "@gpve/domain/storage/prune.ts";
import { openForPrune, planPrune, PRUNE_BACKUPS, type PruneArgs } from "../remove-volume.ts";
import { submit, type StorageRequestDeps } from "./storage-requests.ts";

export async function showPrune(
  { storages }: StorageRequestDeps,
  asked: PveParams["GET /nodes/{node}/storage/{storage}/prunebackups"],
): Promise<readonly object[]> {
  const args = pruneArgs(asked);
  const { plugin, keep } = await openForPrune(storages, args);
  return (await planPrune(plugin, { ...args, keep })).map(({ volid, ctime, mark, type, vmid }) => ({
    volid,
    ctime,
    mark,
    type,
    ...given({ vmid }),
  }));
}

export async function requestPrune(
  deps: StorageRequestDeps,
  asked: PveParams["DELETE /nodes/{node}/storage/{storage}/prunebackups"],
  ctx: RequestContext,
): Promise<string> {
  const { storage, vmid } = asked;
  requirePruneAccess(asked, ctx);
  return submit(deps, ctx, {
    type: PRUNE_BACKUPS,
    resources: [`storage/${storage}/prune`],
    args: pruneArgs(asked),
    subject: `${vmid === undefined ? "" : `${vmid}@`}${storage}`,
  });
}

/** Of one guest its keeper may prune the backups; of all, only who manages the storage. */
function requirePruneAccess(
  { storage, vmid }: { readonly storage: string; readonly vmid?: number },
  { access }: Pick<RequestContext, "access">,
): void {
  if (vmid === undefined) return access.require(`/storage/${storage}`, ["Datastore.Allocate"]);
  access.require(`/storage/${storage}`, ["Datastore.AllocateSpace"]);
  access.require(`/vms/${vmid}`, ["VM.Backup"]);
}

function pruneArgs(params: {
  readonly storage: string;
  readonly vmid?: number;
  readonly type?: GuestType;
  readonly "prune-backups"?: string;
}): PruneArgs {
  const { storage, vmid, type, "prune-backups": keep } = params;
  return {
    storage,
    ...(keep === undefined ? {} : { keep: parseKeepOptions(keep) }),
    ...given({ vmid, type }),
  };
}
