// One request for backups, whoever makes it: PVE's method, a backup job, /api/v1.
import { AppError } from "@gpve/contracts/errors.ts";
import { given } from "@gpve/contracts/given.ts";
import type { RequestOf } from "@gpve/contracts/agent/agent-routes.ts";
import type { VzdumpSettings } from "@gpve/domain/backup/vzdump-defaults.ts";
import { askedBy, type RequestContext } from "@gpve/domain/request/context.ts";
import type { OperationEngine } from "@gpve/kit/operation/engine.ts";
import { BACKUP_QUEUE } from "./backup-operation.ts";
import {
  allowedGuests,
  backupArgs,
  checkVzdumpRequest,
  selectGuests,
  type BackupRequestPorts,
  type Selection,
  type VzdumpParams,
} from "./vzdump-request.ts";

export interface RequestBackupDeps {
  readonly host: BackupRequestPorts;
  readonly engine: Pick<OperationEngine, "submit" | "cancel">;
  /** undefined = there is no such pool. */
  readonly poolMembers: (pool: string) => readonly number[] | undefined;
  /** What this node takes where a request says nothing. */
  readonly settings: () => VzdumpSettings;
  /** Backups of this node that were not seen to end. */
  readonly underWay: () => Iterable<string>;
}

export interface VmBackupDeps {
  readonly host: BackupRequestPorts & {
    /** Whether this node has a VM. */
    readonly configs: { has(vmid: number): boolean };
  };
  readonly engine: Pick<OperationEngine, "submit">;
}

/** Those of this node that were not seen to end, from now on. */
export function backupsUnderWay(engine: Pick<OperationEngine, "observe">): () => Iterable<string> {
  const underWay = new Set<string>();
  engine.observe(({ kind, operation }) => {
    if (operation.type !== BACKUP) return;
    if (kind === "ended" || kind === "removed") underWay.delete(operation.id);
    else underWay.add(operation.id);
  });
  return () => underWay;
}

const BACKUP = "vzdump";
const NOTHING_TO_DO = "OK";
const DEFAULT_STORAGE = "local";

/** Answers with the UPID of the task, or with PVE's word for no task at all. */
export async function requestBackup(
  deps: RequestBackupDeps,
  request: VzdumpParams,
  ctx: RequestContext,
): Promise<string> {
  const { host, engine } = deps;
  checkVzdumpRequest(host, request, ctx);
  const params = withSettings(deps.settings(), request);
  const found = selectGuests(host, params, deps.poolMembers);
  if (params.stop === true) {
    for (const upid of deps.underWay()) await engine.cancel(upid, ctx.actor?.authid ?? "");
    if (found.vmids.length === 0) return NOTHING_TO_DO;
  }
  if (found.vmids.length === 0 && params.all !== true) return NOTHING_TO_DO;
  return submitBackup(deps, { params, found }, ctx);
}

/** Of one VM, with what PVE's method has no parameter for. The node's own settings have no say in it. */
export async function requestVmBackup(
  deps: VmBackupDeps,
  request: Omit<RequestOf<"POST /gpve/nodes/{node}/vms/{vmid}/backup">, "node">,
  ctx: RequestContext,
): Promise<string> {
  const { vmid, storage, backup, requestId } = request;
  const { configs } = deps.host;
  ctx.access.require(`/vms/${vmid}`, ["VM.Backup"]);
  if (!configs.has(vmid))
    throw new AppError("object.not_found", `there is no VM ${vmid} on node ${configs.node}`);
  const params: VzdumpParams = {
    vmid: String(vmid),
    storage,
    mode: backup.mode ?? "snapshot",
    compress: backup.compress === "none" ? "0" : (backup.compress ?? "zstd"),
    ...given({ "notes-template": backup.notes, protected: backup.protected }),
  };
  const found = { vmids: [vmid], skipped: [] };
  return submitBackup(deps, { params, found, incremental: backup.incremental ?? true, requestId }, ctx);
}

async function submitBackup(
  { host, engine }: { readonly host: BackupRequestPorts; readonly engine: Pick<OperationEngine, "submit"> },
  request: {
    readonly params: VzdumpParams;
    readonly found: Selection;
    readonly incremental?: boolean;
    readonly requestId?: string;
  },
  ctx: RequestContext,
): Promise<string> {
  const { params, found, incremental, requestId } = request;
  if (params.dumpdir === undefined)
    ctx.access.require(`/storage/${params.storage ?? DEFAULT_STORAGE}`, ["Datastore.AllocateSpace"]);
  const vmids = allowedGuests(host, params, found.vmids, ctx);
  const { submittedAt, ...args } = backupArgs(host, params, { vmids, skipped: found.skipped }, ctx);
  const { upid } = await engine.submit({
    type: BACKUP,
    resources: [BACKUP_QUEUE],
    // A request that is made again must be the same to the last byte: it does not say when.
    args: { ...args, ...given({ incremental }), ...(requestId === undefined ? { submittedAt } : {}) },
    ...askedBy(ctx),
    subject: vmids.length === 1 ? String(vmids[0]) : "",
    ...given({ requestId }),
  });
  return upid;
}

/** A place given in the request goes before one of the node. */
function withSettings(settings: VzdumpSettings, request: VzdumpParams): VzdumpParams {
  const { storage: _storage, dumpdir: _dumpdir, ...rest } = settings;
  const placed = request.storage !== undefined || request.dumpdir !== undefined;
  return { ...(placed ? rest : settings), ...request };
}
