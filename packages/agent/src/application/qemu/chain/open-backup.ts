// An archive by its name, full or incremental.
import { refused } from "@gpve/domain/request/failures.ts";
import type { ArchiveReader, BackupArchives, NodeFiles } from "@gpve/domain/backup/backup-ports.ts";
import { parseBackupName } from "@gpve/domain/storage/backup-name.ts";
import { openChain, openLink } from "./archive-chain.ts";
import { volumeOf, type GuestStorages } from "../../guest/guest-storages.ts";

export interface OpenBackupPorts {
  readonly storages: GuestStorages;
}

/** `archive`: a volume id, or a path of this node. */
export async function openBackup(
  host: OpenBackupPorts,
  tools: BackupArchives & NodeFiles,
  archive: string,
  signal: AbortSignal,
): Promise<ArchiveReader> {
  // Only root names a file of the host, and may name it by a link.
  if (archive.startsWith("/")) return tools.openArchive(await tools.realFile(archive));
  const { plugin, volname } = volumeOf(host, archive);
  await plugin.activate();
  const { name } = plugin.parse(volname);
  return parseBackupName(name)?.container === "gpvi"
    ? openChain(tools, plugin, name, signal)
    : tools.openArchive(await plugin.file(volname));
}

/** The configuration inside an archive, for GET extractconfig. */
export async function archivedConfigText(
  host: OpenBackupPorts,
  tools: BackupArchives & NodeFiles,
  archive: string,
): Promise<string> {
  const { plugin, volname } = volumeOf(host, archive);
  await plugin.activate();
  const { name } = plugin.parse(volname);
  const link = await openLink(tools, plugin, name);
  await link.close();
  return configOf(link.configs);
}

export function configOf(configs: ReadonlyMap<string, Uint8Array>): string {
  const conf = configs.get("qemu-server.conf");
  if (conf === undefined) throw refused("the backup archive holds no VM configuration");
  return Buffer.from(conf).toString("utf8");
}
