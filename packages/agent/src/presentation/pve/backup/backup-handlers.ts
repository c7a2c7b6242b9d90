// vzdump and what belongs to it.
import { given } from "@gpve/contracts/given.ts";
import { AppError } from "@gpve/contracts/errors.ts";
import type { BackupTools } from "@gpve/domain/backup/backup-ports.ts";
import { shownDefaults, visibleDefaults, type VzdumpSettings } from "@gpve/domain/backup/vzdump-defaults.ts";
import type { RequestContext } from "@gpve/domain/request/context.ts";
import type { PveHandlers } from "@gpve/domain/request/handler.ts";
import { contentOf } from "@gpve/domain/storage/definition.ts";
import { requireVolumeAccess } from "@gpve/domain/storage/volume-access.ts";
import type { OperationEngine } from "@gpve/kit/operation/engine.ts";
import { BACKUP_QUEUE } from "../../../application/guest/backup/backup-operation.ts";
import { archivedConfigText } from "../../../application/qemu/chain/open-backup.ts";
import {
  allowedGuests,
  backupArgs,
  checkVzdumpRequest,
  selectGuests,
  type BackupRequestPorts,
  type VzdumpRequestPorts,
} from "./vzdump-request.ts";
import { volumeOf } from "../../../application/guest/guest-storages.ts";

export interface BackupHandlerDeps {
  readonly host: BackupRequestPorts;
  readonly tools: BackupTools;
  readonly engine: OperationEngine;
  /** undefined = there is no such pool. */
  readonly poolMembers: (pool: string) => readonly number[] | undefined;
  /** What this node takes where a request says nothing. */
  readonly settings: () => VzdumpSettings;
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
    "POST /nodes/{node}/vzdump": async (request, ctx) => {
      checkVzdumpRequest(host, request, ctx);
      const params = withSettings(deps.settings(), request);
      const found = selectGuests(host, params, deps.poolMembers);
      if (params.stop === true) {
        for (const upid of underWay) await engine.cancel(upid, ctx.actor?.authid ?? "");
        if (found.vmids.length === 0) return "OK";
      }
      if (found.vmids.length === 0 && params.all !== true) return "OK";
      if (params.dumpdir === undefined)
        ctx.access.require(`/storage/${params.storage ?? "local"}`, ["Datastore.AllocateSpace"]);
      const vmids = allowedGuests(host, params, found.vmids, ctx);
      const { upid } = await engine.submit({
        type: "vzdump",
        resources: [BACKUP_QUEUE],
        args: { ...backupArgs(host, params, { vmids, skipped: found.skipped }, ctx) },
        actor: ctx.actor?.authid ?? "",
        subject: vmids.length === 1 ? String(vmids[0]) : "",
        ...given({ traceparent: ctx.traceparent }),
      });
      return upid;
    },
    "GET /nodes/{node}/vzdump/defaults": ({ node, storage }, ctx) => {
      const settings = deps.settings();
      const given = storage ?? settings["storage"];
      const id = typeof given === "string" ? given : settings["dumpdir"] === undefined ? "local" : undefined;
      if (id !== undefined)
        ctx.access.require(`/storage/${id}`, ["Datastore.Audit", "Datastore.AllocateSpace"], "any");
      const shown = shownDefaults(settings, id === undefined ? undefined : storageDefaults(host, id));
      return visibleDefaults(shown, {
        auditNode: ctx.access.has(`/nodes/${node}`, ["Sys.Audit"]),
        auditPool: (pool) => ctx.access.has(`/pool/${pool}`, ["Pool.Audit"]),
      });
    },
    "GET /nodes/{node}/vzdump/extractconfig": ({ volume }, ctx) => {
      const owner = requireBackup(host, volume, ctx);
      // Who manages the storage still sees no guest's configuration without the guest's leave.
      if (owner !== undefined) ctx.access.require(`/vms/${owner}`, ["VM.Backup"]);
      return archivedConfigText(host, tools, volume);
    },
  };
}

/** A place given in the request goes before one of the node. */
function withSettings<T extends { readonly storage?: string; readonly dumpdir?: string }>(
  settings: VzdumpSettings,
  request: T,
): T {
  const { storage: _storage, dumpdir: _dumpdir, ...rest } = settings;
  const placed = request.storage !== undefined || request.dumpdir !== undefined;
  return { ...(placed ? rest : settings), ...request };
}

function storageDefaults(
  host: VzdumpRequestPorts,
  id: string,
): { id: string; dumpdir?: string; prune?: string } {
  const definition = host.storages.definition(id);
  if (!contentOf(definition).has("backup"))
    throw new AppError("request.invalid", `can't use storage '${id}' for backups - wrong content type\n`, {
      pveStatus: 500,
    });
  const prune = definition.options["prune-backups"];
  return {
    id,
    dumpdir: host.storages.plugin(id).backupFolder(),
    ...(typeof prune === "string" ? { prune } : {}),
  };
}

/** Throws when the volume is no backup, or one that the actor may not use. Returns whose it is. */
export function requireBackup(
  host: VzdumpRequestPorts,
  volid: string,
  ctx: RequestContext,
  forVmid?: number,
): number | undefined {
  const { plugin, volname, storage } = volumeOf(host, volid);
  const { type, vmid } = plugin.parse(volname);
  requireVolumeAccess(
    ctx.access,
    { storage, volid, type, ...given({ vmid }) },
    { as: "backup", ...given({ forVmid }) },
  );
  return vmid;
}
