import { refused } from "@gpve/domain/request/failures.ts";
import { AppError, messageOf } from "@gpve/contracts/errors.ts";
import type { BackupHooks, NodeFiles } from "@gpve/domain/backup/backup-ports.ts";
import { contentOf } from "@gpve/domain/storage/definition.ts";
import { parseKeepOptions, type KeepOptions } from "@gpve/domain/storage/prune.ts";
import type { OperationDefinition, StepContext } from "@gpve/kit/operation/definition.ts";
import { backupGuest } from "./backup-guest.ts";
import { hookRunner } from "./backup-hooks.ts";
import type { BackupArgs, BackupState } from "./backup-request.ts";
import type { BackupRun, GuestBackup } from "./backup-run.ts";
import type { GuestStorages } from "../guest-storages.ts";
import type { Clock } from "@gpve/kit/clock.ts";
import type { BackupTarget } from "./prune-old-backups.ts";

/** One at a time on a node, as with PVE. */
export const BACKUP_QUEUE = "vzdump";

/** Less is no wait worth a line. */
const WAITED_MS = 1_000;

export interface BackupOperationPorts {
  readonly clock: Clock;
  readonly storages: GuestStorages;
  /** How a guest of its kind is saved; one that nobody has is a VM as good as any. */
  readonly backupOf: (vmid: number) => GuestBackup;
}

type Context = StepContext<BackupArgs, BackupState>;

/** One task for all guests asked for, as PVE does: one that fails does not keep the others from being saved. */
export function backupOperation(
  host: BackupOperationPorts,
  tools: BackupRun["tools"] & BackupHooks,
  whileFree: BackupRun["whileFree"],
): OperationDefinition<BackupArgs, BackupState> {
  return {
    type: "vzdump",
    initialState: () => ({}),
    steps: [
      {
        name: "backup",
        run: (ctx) => runJob(host, tools, whileFree, ctx),
        undo: async (ctx) => {
          if (ctx.state.held === undefined) return;
          await host.backupOf(ctx.state.held.vmid).release(ctx.state.held, ctx);
          delete ctx.state.held;
        },
      },
    ],
  };
}

async function runJob(
  host: BackupOperationPorts,
  tools: BackupRun["tools"] & BackupHooks,
  whileFree: BackupRun["whileFree"],
  ctx: Context,
): Promise<void> {
  const { args, state, signal, log, warn, progress, checkpoint } = ctx;
  checkWait(host, args, log);
  const target = await targetOf(host, tools, args);
  const hook = hookRunner(tools, args, target, log);
  await hook("job-init");
  log(`INFO: starting new backup job: ${args.commandLine}`);
  if (args.skipped !== undefined && args.skipped.length > 0)
    log(`INFO: skip external VMs: ${args.skipped.join(", ")}`);
  const keep = args.keep ?? storageRules(host, args) ?? { "keep-all": true };
  const run = { tools, args, target, keep, hook, whileFree, state, checkpoint };
  let failed = 0;
  try {
    await hook("job-start");
    for (const [index, vmid] of args.vmids.entries()) {
      const share = (part: number): void => progress((index + part) / args.vmids.length);
      try {
        const kind = host.backupOf(vmid);
        await backupGuest(run, { kind, clock: host.clock }, vmid, { signal, log, warn, progress: share });
      } catch {
        // It is in the log already, with its reason.
        signal.throwIfAborted();
        failed++;
      }
    }
    await hook("job-end");
  } catch (err) {
    await hook("job-abort").catch((cause: unknown) => log(`ERROR: ${messageOf(cause)}`));
    log(`ERROR: Backup job failed - ${messageOf(err)}`);
    throw err;
  }
  log(failed > 0 ? "INFO: Backup job finished with errors" : "INFO: Backup job finished successfully");
  if (failed > 0) throw new AppError("operation.failed", "job errors", { pveStatus: 500 });
}

function checkWait(host: BackupOperationPorts, args: BackupArgs, log: (line: string) => void): void {
  const waited = host.clock.now() - (args.submittedAt ?? host.clock.now());
  if (waited < WAITED_MS) return;
  if (waited > Math.max(1, args.lockwaitMinutes) * 60_000)
    throw new AppError("request.timeout", "can't acquire the lock for backups of this node - got timeout", {
      pveStatus: 500,
    });
  log("INFO: got global lock");
}

async function targetOf(
  host: BackupOperationPorts,
  tools: NodeFiles,
  args: BackupArgs,
): Promise<BackupTarget> {
  if (args.tmpdir !== undefined && !(await tools.isFolder(args.tmpdir)))
    throw refused(`tmpdir '${args.tmpdir}' does not exist`);
  if (args.storage === undefined) {
    const folder = args.dumpdir ?? "";
    if (!(await tools.isFolder(folder))) throw refused(`dumpdir '${folder}' does not exist`);
    return { folder };
  }
  const { storage } = args;
  const plugin = host.storages.plugin(storage);
  await plugin.activate().catch((cause: unknown) => {
    throw new AppError("node.unavailable", `could not activate storage '${storage}': ${messageOf(cause)}`, {
      cause,
      pveStatus: 500,
    });
  });
  if (!contentOf(host.storages.definition(storage)).has("backup"))
    throw refused(
      `could not get storage information for '${storage}': can't use storage '${storage}' for backups - wrong ` +
        "content type",
    );
  return { storage, plugin, folder: plugin.backupFolder() };
}

function storageRules(host: BackupOperationPorts, { storage }: BackupArgs): KeepOptions | undefined {
  if (storage === undefined) return undefined;
  const text = host.storages.definition(storage).options["prune-backups"];
  return typeof text === "string" ? parseKeepOptions(text) : undefined;
}
