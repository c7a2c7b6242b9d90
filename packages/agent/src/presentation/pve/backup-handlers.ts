// vzdump and what belongs to it.
import type { BackupTools } from "@gpve/domain/backup/backup-ports.ts";
import type { RequestContext } from "@gpve/domain/request/context.ts";
import type { PveHandlers } from "@gpve/domain/request/handler.ts";
import { requireVolumeAccess } from "@gpve/domain/storage/volume-access.ts";
import type { OperationEngine } from "@gpve/kit/operation/engine.ts";
import { BACKUP_QUEUE } from "../../application/backup/backup-operation.ts";
import { archivedConfigText } from "../../application/backup/open-backup.ts";
import { volumeOf, type VmHost } from "../../application/vm/vm-host.ts";
import { allowedGuests, backupArgs, checkVzdumpRequest, selectGuests } from "./vzdump-request.ts";

export interface BackupHandlerDeps {
  readonly host: VmHost;
  readonly tools: BackupTools;
  readonly engine: OperationEngine;
  /** undefined = there is no such pool. */
  readonly poolMembers: (pool: string) => readonly number[] | undefined;
  readonly clusterName?: () => string | undefined;
}

export function createBackupHandlers(deps: BackupHandlerDeps): PveHandlers {
  const { host, tools, engine } = deps;
  /** Those of this node that were not seen to end. */
  const underWay = new Set<string>();
  engine.observe(({ kind, operation }) => {
    if (operation.type !== "vzdump") return;
    if (kind === "ended" || kind === "removed") underWay.delete(operation.id);
    else underWay.add(operation.id);
  });
  return {
    "POST /nodes/{node}/vzdump": async (params, ctx) => {
      checkVzdumpRequest(host, params, ctx);
      const found = selectGuests(host, params, deps.poolMembers);
      if (params.stop === true) {
        for (const upid of underWay) await engine.cancel(upid, ctx.actor?.authid ?? "");
        if (found.vmids.length === 0) return "OK";
      }
      if (found.vmids.length === 0 && params.all !== true) return "OK";
      if (params.dumpdir === undefined)
        ctx.access.require(`/storage/${params.storage ?? "local"}`, ["Datastore.AllocateSpace"]);
      const vmids = allowedGuests(host, params, found.vmids, ctx);
      const cluster = deps.clusterName?.();
      const { upid } = await engine.submit({
        type: "vzdump",
        resources: [BACKUP_QUEUE],
        args: {
          ...backupArgs(host, params, { vmids, skipped: found.skipped }, ctx),
          ...(cluster === undefined ? {} : { cluster }),
        },
        actor: ctx.actor?.authid ?? "",
        subject: vmids.length === 1 ? String(vmids[0]) : "",
        ...(ctx.traceparent === undefined ? {} : { traceparent: ctx.traceparent }),
      });
      return upid;
    },
    "GET /nodes/{node}/vzdump/extractconfig": ({ volume }, ctx) => {
      requireBackup(host, volume, ctx);
      return archivedConfigText(host, tools, volume);
    },
  };
}

/** Throws when the volume is no backup, or one that the actor may not use. */
export function requireBackup(host: VmHost, volid: string, ctx: RequestContext, forVmid?: number): void {
  const { plugin, volname, storage } = volumeOf(host, volid);
  const { type, vmid } = plugin.parse(volname);
  requireVolumeAccess(
    ctx.access,
    { storage, volid, type, ...(vmid === undefined ? {} : { vmid }) },
    { as: "backup", ...(forVmid === undefined ? {} : { forVmid }) },
  );
}
