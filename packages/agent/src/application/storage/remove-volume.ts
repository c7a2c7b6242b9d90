// Removing a volume, and removing the backups that the keep-* rules no longer keep.
import { given } from "@gpve/contracts/given.ts";
import { parseBackupName } from "@gpve/domain/storage/backup-name.ts";
import type { KeepOptions, PruneCandidate, Pruned } from "@gpve/domain/storage/prune.ts";
import { markBackups, parseKeepOptions } from "@gpve/domain/storage/prune.ts";
import { contentOf, type StorageDefinition } from "@gpve/domain/storage/definition.ts";
import { storageRefused } from "@gpve/domain/storage/failures.ts";
import { messageOf } from "@gpve/contracts/errors.ts";
import type { StoragePlugin, VolumeInfo } from "@gpve/domain/storage/plugin.ts";
import type { OperationDefinition } from "@gpve/kit/operation/definition.ts";
import { civilTime } from "./local-time.ts";
import type { NodeStorages } from "./node-storages.ts";

export const REMOVE_VOLUME = "imgdel";
export const PRUNE_BACKUPS = "prunebackups";

export interface RemoveVolumeArgs {
  readonly volid: string;
}

/** `keeperOf`: the replication job whose copy a volume is. */
export function removeVolumeOperation(
  storages: NodeStorages,
  keeperOf: (volid: string) => string | undefined = () => undefined,
): OperationDefinition<RemoveVolumeArgs> {
  return {
    type: REMOVE_VOLUME,
    onCrash: "resume",
    steps: [
      {
        name: "remove",
        run: async (ctx) => {
          const { plugin, volname } = storages.volume(ctx.args.volid);
          const job = keeperOf(ctx.args.volid);
          if (job !== undefined)
            throw storageRefused(
              `volume '${ctx.args.volid}' is the copy that replication job '${job}' keeps: remove the job`,
            );
          await plugin.activate();
          const wasThere = await plugin.free(volname, { signal: ctx.signal });
          if (!wasThere) ctx.log(`disk image '${plugin.path(volname)}' does not exist`);
          ctx.log(`Removed volume '${ctx.args.volid}'`);
        },
      },
    ],
  };
}

export interface PruneArgs {
  readonly storage: string;
  /** Absent = what the storage's definition says. */
  readonly keep?: KeepOptions;
  readonly vmid?: number;
  readonly type?: string;
}

export type PruneRow = Pruned<PruneCandidate>;

/** What the request wants to keep, or else the storage. */
export function keepRules(
  { storage, options }: StorageDefinition,
  given: KeepOptions | undefined,
): KeepOptions {
  if (given !== undefined) return given;
  const text = options["prune-backups"];
  if (typeof text === "string") return parseKeepOptions(text);
  throw storageRefused(`no prune-backups options configured for storage '${storage}'`);
}

/** A storage of backups, and what is to be kept on it. */
export async function openForPrune(
  storages: NodeStorages,
  { storage, keep }: PruneArgs,
): Promise<{ readonly plugin: StoragePlugin; readonly keep: KeepOptions }> {
  const { definition } = storages.find(storage);
  if (!contentOf(definition).has("backup"))
    throw storageRefused(`storage '${storage}' does not support backups`);
  const rules = keepRules(definition, keep);
  const { plugin } = await storages.open(storage);
  return { plugin, keep: rules };
}

/** What would stay and what would go. */
export async function planPrune(
  plugin: StoragePlugin,
  args: PruneArgs & { readonly keep: KeepOptions },
): Promise<PruneRow[]> {
  const backups = await plugin.list({
    content: ["backup"],
    ...given({ vmid: args.vmid }),
  });
  const candidates = backups
    .map((backup) => candidate(plugin.storage, backup))
    .filter(({ type }) => args.type === undefined || type === args.type);
  return markBackups(candidates, args.keep, civilTime);
}

function candidate(storage: string, backup: VolumeInfo): PruneCandidate {
  const name = parseBackupName(backup.volname.slice("backup/".length));
  const vmid = name?.vmid ?? backup.vmid;
  return {
    volid: `${storage}:${backup.volname}`,
    ctime: backup.ctime,
    type: name?.type ?? "unknown",
    standard: name?.standard ?? false,
    protected: backup.protected === true,
    ...given({ vmid }),
    ...(backup.parent === undefined ? {} : { parent: `${storage}:${backup.parent}` }),
  };
}

export function pruneBackupsOperation(storages: NodeStorages): OperationDefinition<PruneArgs> {
  return {
    type: PRUNE_BACKUPS,
    onCrash: "resume",
    steps: [
      {
        name: "prune",
        run: async (ctx) => {
          const { plugin, keep } = await openForPrune(storages, ctx.args);
          const rows = (await planPrune(plugin, { ...ctx.args, keep })).filter(
            ({ mark }) => mark === "remove",
          );
          // Children first: a crash in between never leaves an archive without what it builds on.
          let failed = false;
          for (const { volid } of rows.toSorted((a, b) => b.ctime - a.ctime)) {
            ctx.signal.throwIfAborted();
            ctx.log(`removing backup '${volid}'`);
            try {
              await plugin.free(volid.slice(plugin.storage.length + 1));
            } catch (err) {
              failed = true;
              ctx.log(`error when removing backup '${volid}' - ${messageOf(err)}`);
            }
          }
          if (failed) throw storageRefused("error pruning backups - check log");
        },
      },
    ],
  };
}
