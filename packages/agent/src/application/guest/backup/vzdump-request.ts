// A request for backups: whom it is about, who may make it, and what it becomes.
import { missing, parameterError, refused } from "@gpve/domain/request/failures.ts";
import { given } from "@gpve/contracts/given.ts";
import type { Compression } from "@gpve/domain/backup/backup-ports.ts";
import {
  checkVzdumpSelection,
  selectsAll,
  splitVmids,
  vzdumpCommandLine,
} from "@gpve/domain/backup/vzdump-parameters.ts";
import { readPropertyString } from "@gpve/domain/schema/property-string.ts";
import { isRoot, type RequestContext } from "@gpve/domain/request/context.ts";
import { parseKeepOptions } from "@gpve/domain/storage/prune.ts";
import { protectedLimit } from "@gpve/domain/storage/volume-access.ts";
import type { BackupArgs, BackupMode } from "./backup-request.ts";
import type { ClusterGuests } from "../cluster-guests.ts";
import type { GuestStorages } from "../guest-storages.ts";
import type { Clock } from "@gpve/kit/clock.ts";

export interface VzdumpRequestPorts {
  readonly configs: ClusterGuests;
  readonly storages: GuestStorages;
  readonly clock: Clock;
}

export interface BackupRequestPorts extends VzdumpRequestPorts {
  /** undefined = this node is in no cluster. */
  readonly clusterName: () => string | undefined;
}

/** What PVE writes for {{cluster}} where there is none. */
const NO_CLUSTER = "standalone node";

export interface VzdumpParams {
  readonly node?: string;
  readonly vmid?: string;
  readonly all?: boolean;
  readonly exclude?: string;
  readonly pool?: string;
  readonly stop?: boolean;
  readonly stdout?: boolean;
  readonly storage?: string;
  readonly dumpdir?: string;
  readonly tmpdir?: string;
  readonly script?: string;
  readonly mode?: BackupMode;
  readonly compress?: string;
  readonly bwlimit?: number;
  readonly ionice?: number;
  readonly performance?: string;
  readonly fleecing?: string;
  readonly lockwait?: number;
  readonly stopwait?: number;
  readonly protected?: boolean;
  readonly remove?: boolean;
  readonly "notes-template"?: string;
  readonly "prune-backups"?: string;
  readonly "job-id"?: string;
}

export interface Selection {
  /** Here, and those that nobody has: the task says so. */
  readonly vmids: readonly number[];
  /** On other nodes. */
  readonly skipped: readonly number[];
}

const DEFAULT_STORAGE = "local";
const DEFAULTS = { ionice: 7, lockwait: 180, stopwait: 10 } as const;
const COMPRESSIONS: Readonly<Record<string, Compression>> = {
  "0": "none",
  "1": "lzo",
  gzip: "gzip",
  lzo: "lzo",
  zstd: "zstd",
};

/** Throws on what PVE refuses before it forks. */
export function checkVzdumpRequest(
  host: VzdumpRequestPorts,
  params: VzdumpParams,
  ctx: RequestContext,
): void {
  if (params.stdout === true)
    throw parameterError({ stdout: "option is only allowed on the command line interface." });
  if (ctx.actor === undefined || !isRoot(ctx.actor)) checkPrivileged(params, ctx);
  checkVzdumpSelection(params);
  if (params.stop === true) ctx.access.require(`/nodes/${host.configs.node}`, ["Sys.Modify"]);
  if (params.storage !== undefined && params.dumpdir !== undefined)
    throw refused("cannot use options 'storage' and 'dumpdir' at the same time");
}

function checkPrivileged(params: VzdumpParams, ctx: RequestContext): void {
  for (const name of ["tmpdir", "dumpdir", "script", "job-id"] as const)
    if (params[name] !== undefined) throw parameterError({ [name]: "Only root may set this option." });
  if (params.bwlimit !== undefined || params.ionice !== undefined || params.performance !== undefined)
    ctx.access.require("/", ["Sys.Modify"]);
  const fleecing = fleecingOptions(params).storage;
  if (fleecing !== undefined) ctx.access.require(`/storage/${fleecing}`, ["Datastore.AllocateSpace"]);
  if (params["prune-backups"] !== undefined || params.remove !== undefined)
    ctx.access.require(`/storage/${params.storage ?? DEFAULT_STORAGE}`, ["Datastore.Allocate"]);
}

function fleecingOptions({ fleecing }: VzdumpParams): {
  readonly enabled: boolean;
  readonly storage: string | undefined;
} {
  const { enabled, storage } = fleecing === undefined ? {} : readPropertyString("backup-fleecing", fleecing);
  return { enabled: enabled === true, storage: typeof storage === "string" ? storage : undefined };
}

export function selectGuests(
  host: VzdumpRequestPorts,
  params: VzdumpParams,
  poolMembers: (pool: string) => readonly number[] | undefined,
): Selection {
  const guests = new Map(host.configs.everywhere().map(({ vmid, node }) => [vmid, node]));
  const wanted = wantedVmids(params, [...guests.keys()], poolMembers);
  return {
    vmids: wanted.filter((vmid) => (guests.get(vmid) ?? host.configs.node) === host.configs.node),
    skipped: wanted.filter((vmid) => (guests.get(vmid) ?? host.configs.node) !== host.configs.node),
  };
}

function wantedVmids(
  params: VzdumpParams,
  everybody: readonly number[],
  poolMembers: (pool: string) => readonly number[] | undefined,
): readonly number[] {
  if (params.pool !== undefined && params.pool !== "") {
    const members = poolMembers(params.pool);
    if (members === undefined) throw missing(`pool '${params.pool}' does not exist`);
    return members.toSorted((a, b) => a - b);
  }
  if (!selectsAll(params)) return splitVmids(params.vmid);
  const excluded = new Set(splitVmids(params.exclude));
  return everybody.filter((vmid) => !excluded.has(vmid)).toSorted((a, b) => a - b);
}

/** Of all guests those are meant whose backup the actor may make; of named ones it must be every one. */
export function allowedGuests(
  host: VzdumpRequestPorts,
  params: VzdumpParams,
  vmids: readonly number[],
  ctx: RequestContext,
) {
  return vmids.filter((vmid) => {
    if (!host.configs.isTaken(vmid)) return true;
    if (selectsAll(params) && !ctx.access.has(`/vms/${vmid}`, ["VM.Backup"])) return false;
    ctx.access.require(`/vms/${vmid}`, ["VM.Backup"]);
    return true;
  });
}

export function backupArgs(
  host: BackupRequestPorts,
  params: VzdumpParams,
  { vmids, skipped }: Selection,
  ctx: RequestContext,
): BackupArgs {
  const { notes, keep } = { notes: params["notes-template"], keep: params["prune-backups"] };
  const fleecing = fleecingOptions(params);
  const storage = params.dumpdir === undefined ? (params.storage ?? DEFAULT_STORAGE) : undefined;
  const limit = storage === undefined ? -1 : protectedLimit(host.storages.definition(storage), ctx.access);
  return {
    vmids,
    skipped,
    commandLine: vzdumpCommandLine({ ...params }),
    ...(storage === undefined ? { dumpdir: params.dumpdir?.replace(/\/+$/, "") ?? "" } : { storage }),
    ...(fleecing.enabled && fleecing.storage !== undefined ? { fleecingStorage: fleecing.storage } : {}),
    ...given({ tmpdir: params.tmpdir?.replace(/\/+$/, "") }),
    mode: params.mode ?? "snapshot",
    compression: COMPRESSIONS[params.compress ?? "0"] ?? "none",
    ...given({ notesTemplate: notes }),
    cluster: host.clusterName() ?? NO_CLUSTER,
    isProtected: params.protected ?? false,
    ...(limit < 0 ? {} : { maxProtected: limit }),
    ...(keep === undefined ? {} : { keep: parseKeepOptions(keep) }),
    remove: params.remove ?? true,
    bwlimit: params.bwlimit ?? 0,
    ionice: params.ionice ?? DEFAULTS.ionice,
    ...given({ script: params.script }),
    lockwaitMinutes: params.lockwait ?? DEFAULTS.lockwait,
    stopwaitMinutes: params.stopwait ?? DEFAULTS.stopwait,
    submittedAt: host.clock.now(),
  };
}
