// After a backup: older ones of the same guest that the keep-* rules no longer keep are removed, protected ones never.
import { AppError, messageOf } from "@gpve/contracts/errors.ts";
import type { BackupArchives, NodeFiles } from "@gpve/domain/backup/backup-ports.ts";
import {
  logNameOf,
  NOTES_SUFFIX,
  parseBackupName,
  PROTECTED_SUFFIX,
} from "@gpve/domain/storage/backup-name.ts";
import { markBackups, type KeepOptions, type PruneCandidate } from "@gpve/domain/storage/prune.ts";
import type { StoragePlugin } from "@gpve/domain/storage/plugin.ts";
import type { GuestType } from "@gpve/domain/guest/guest-kinds.ts";
import { ignore } from "@gpve/kit/background.ts";
import { backupTime, civilTime } from "../../storage/local-time.ts";
import { planPrune } from "../../storage/remove-volume.ts";

/** Where the archives of a job lie: on a storage, or in a folder. */
export interface BackupTarget {
  readonly storage?: string;
  readonly plugin?: StoragePlugin;
  readonly folder: string;
}

export interface BackedUpGuest {
  readonly type: GuestType;
  readonly vmid: number;
}

interface OldBackup {
  readonly label: string;
  readonly ctime: number;
  remove(): Promise<unknown>;
}

export async function pruneOldBackups(
  target: BackupTarget,
  tools: NodeFiles & BackupArchives,
  guest: BackedUpGuest,
  keep: KeepOptions,
  log: (line: string) => void,
): Promise<void> {
  const rules = Object.entries(keep).toSorted(([a], [b]) => (a < b ? -1 : 1));
  log(
    `INFO: prune older backups with retention: ${rules.map(([name, value]) => `${name}=${Number(value)}`).join(", ")}`,
  );
  const old = await oldBackups(target, tools, guest, keep);
  let failed = false;
  // Children first: one that fails in between never leaves an archive without what it builds on.
  for (const backup of old.toSorted((a, b) => b.ctime - a.ctime)) {
    log(`INFO: removing backup '${backup.label}'`);
    try {
      await backup.remove();
    } catch (err) {
      failed = true;
      log(`ERROR: error when removing backup '${backup.label}' - ${messageOf(err)}`);
    }
  }
  if (failed) throw new AppError("operation.failed", "error pruning backups - check log", { pveStatus: 500 });
  const extra = old.length > 0 ? " not covered by keep-retention policy" : "";
  log(`INFO: pruned ${old.length} backup(s)${extra}`);
}

/** How many there are: protected ones, and others. */
export async function countBackups(
  target: BackupTarget,
  tools: NodeFiles & BackupArchives,
  guest: BackedUpGuest,
): Promise<{ protected: number; others: number }> {
  const all = await candidates(target, tools, guest);
  const isProtected = all.filter((each) => each.protected).length;
  return { protected: isProtected, others: all.length - isProtected };
}

async function oldBackups(
  target: BackupTarget,
  tools: NodeFiles & BackupArchives,
  guest: BackedUpGuest,
  keep: KeepOptions,
): Promise<OldBackup[]> {
  const { plugin, storage } = target;
  if (plugin !== undefined && storage !== undefined) {
    const marked = await planPrune(plugin, { storage, keep, ...guest });
    return marked
      .filter(({ mark }) => mark === "remove")
      .map(({ volid, ctime }) => ({
        label: volid,
        ctime,
        remove: () => plugin.free(volid.slice(storage.length + 1)),
      }));
  }
  return markBackups(await inFolder(target.folder, tools, guest), keep, civilTime)
    .filter(({ mark }) => mark === "remove")
    .map(({ volid, ctime }) => ({ label: volid, ctime, remove: () => removeArchive(volid, tools) }));
}

async function candidates(
  { plugin, folder }: BackupTarget,
  tools: NodeFiles & BackupArchives,
  guest: BackedUpGuest,
): Promise<readonly { readonly protected: boolean }[]> {
  if (plugin === undefined) return inFolder(folder, tools, guest);
  const rows = await plugin.list({ content: ["backup"], vmid: guest.vmid });
  return rows
    .filter(({ subtype }) => subtype === undefined || subtype === guest.type)
    .map((row) => ({ protected: row.protected === true }));
}

async function inFolder(
  folder: string,
  tools: NodeFiles & BackupArchives,
  { type, vmid }: BackedUpGuest,
): Promise<PruneCandidate[]> {
  const names = await tools.listFiles(folder);
  const all = new Set(names);
  const rows: PruneCandidate[] = [];
  for (const name of names) {
    const parsed = parseBackupName(name);
    if (parsed?.standard !== true || parsed.type !== type || parsed.vmid !== vmid) continue;
    const parent = parsed.container === "gpvi" ? await parentIn(folder, name, tools) : undefined;
    rows.push({
      volid: `${folder}/${name}`,
      ctime: backupTime(name) ?? 0,
      type,
      vmid,
      standard: true,
      protected: all.has(name + PROTECTED_SUFFIX),
      ...(parent === undefined ? {} : { parent: `${folder}/${parent}` }),
    });
  }
  return rows;
}

async function parentIn(folder: string, name: string, tools: BackupArchives): Promise<string | undefined> {
  try {
    const reader = await tools.openIncremental(`${folder}/${name}`);
    await reader.close();
    return reader.header.parent.name;
  } catch (err) {
    ignore(err, "a damaged archive needs no parent");
    return undefined;
  }
}

async function removeArchive(path: string, tools: NodeFiles): Promise<void> {
  const slash = path.lastIndexOf("/") + 1;
  const logName = logNameOf(path.slice(slash));
  await tools.removeFile(path);
  await tools.removeFile(path + NOTES_SUFFIX);
  if (logName !== undefined) await tools.removeFile(path.slice(0, slash) + logName);
}
