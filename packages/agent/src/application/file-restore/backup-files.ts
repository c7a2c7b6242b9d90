// Single files out of backups: drives -> partitions -> files.
import { refused } from "@gpve/domain/request/failures.ts";
import type { BackupArchives } from "@gpve/domain/backup/backup-ports.ts";
import type {
  DiskFormats,
  DiskSpool,
  FileTree,
  PackedEntry,
  PackFiles,
  RandomAccess,
  TreeFile,
} from "@gpve/domain/backup/file-tree.ts";
import { parseBackupName } from "@gpve/domain/storage/backup-name.ts";
import type { StoragePlugin } from "@gpve/domain/storage/plugin.ts";
import { openChain, openLink } from "../qemu/chain/archive-chain.ts";

export interface BackupFilesDeps {
  readonly tools: BackupArchives;
  readonly spool: DiskSpool;
  readonly formats: DiskFormats;
  readonly pack: PackFiles;
}

/** One archive on a storage. */
export interface Archive {
  readonly plugin: StoragePlugin;
  /** File name. */
  readonly name: string;
}

export interface FileRow {
  readonly path: readonly string[];
  readonly text: string;
  /** "v": a drive or partition. */
  readonly type: string;
  readonly leaf: boolean;
  readonly size?: number;
  readonly mtime?: number;
}

/** A disk without a partition table is one file system. */
const WHOLE_DISK = "raw";
const MAX_DEPTH = 100;

export async function listBackupFiles(
  deps: BackupFilesDeps,
  archive: Archive,
  path: readonly string[],
): Promise<readonly FileRow[]> {
  const [drive, part, ...inside] = path;
  if (drive === undefined) return driveRows(deps, archive);
  const disk = await openDisk(deps, archive, drive);
  if (part === undefined) {
    const partitions = await deps.formats.partitions(disk);
    if (partitions === undefined)
      return [{ path: [drive, WHOLE_DISK], text: WHOLE_DISK, type: "v", leaf: false, size: disk.size }];
    return partitions.map(({ number, size }) => ({
      path: [drive, `part${number}`],
      text: `part${number}`,
      type: "v",
      leaf: false,
      size,
    }));
  }
  const tree = await deps.formats.openTree(await slice(deps, disk, part));
  return (await tree.list(inside)).map((file) => rowOf([drive, part, ...inside, file.name], file));
}

export interface Download {
  readonly fileName: string;
  readonly body: AsyncIterable<Uint8Array>;
}

export async function downloadBackupFile(
  deps: BackupFilesDeps,
  archive: Archive,
  path: readonly string[],
  asTar: boolean,
): Promise<Download> {
  const [drive, part, ...inside] = path;
  if (drive === undefined || part === undefined)
    throw refused("only files and directories can be downloaded: choose one inside a partition");
  const disk = await openDisk(deps, archive, drive);
  const tree = await deps.formats.openTree(await slice(deps, disk, part));
  const file = await tree.find(inside);
  const fileName = file.name === "" ? part : file.name;
  if (file.kind === "f") return { fileName, body: tree.read(inside) };
  if (file.kind !== "d") throw refused(`'/${inside.join("/")}' is neither a file nor a directory`);
  const format = asTar ? "tar.zst" : "zip";
  return { fileName: `${fileName}.${format}`, body: deps.pack(format, walk(tree, inside, [fileName])) };
}

async function* walk(
  tree: FileTree,
  path: readonly string[],
  name: readonly string[],
): AsyncGenerator<PackedEntry> {
  if (path.length > MAX_DEPTH) throw refused("a directory of the backup leads into itself");
  for (const file of await tree.list(path)) {
    const at = [...path, file.name];
    const shown = [...name, file.name];
    const entry = { path: shown.join("/"), file };
    if (file.kind === "f") yield { ...entry, body: tree.read(at) };
    else if (file.kind === "l") yield { ...entry, target: await tree.target(at) };
    else yield entry;
    if (file.kind === "d") yield* walk(tree, at, shown);
  }
}

async function driveRows({ tools }: BackupFilesDeps, { plugin, name }: Archive): Promise<FileRow[]> {
  const link = await openLink(tools, plugin, name);
  await link.close();
  return link.devices
    .filter((device) => device.name !== "vmstate")
    .map((device) => ({
      path: [device.name],
      text: device.name,
      type: "v",
      leaf: false,
      size: device.size,
    }));
}

async function openDisk(deps: BackupFilesDeps, archive: Archive, drive: string): Promise<RandomAccess> {
  const { tools, spool } = deps;
  const { plugin, name } = archive;
  const link = await openLink(tools, plugin, name);
  await link.close();
  const device = link.devices.find((each) => each.name === drive && each.name !== "vmstate");
  if (device === undefined) throw refused(`the backup has no drive '${drive}'`);
  return spool.open(`${plugin.storage}:${name}:${link.uuid}:${drive}`, device.size, async (write, signal) => {
    const isChain = parseBackupName(name)?.container === "gpvi";
    const reader = isChain
      ? await openChain(tools, plugin, name, signal)
      : await tools.openArchive(await plugin.file(`backup/${name}`));
    for await (const { device: from, offset, data, isZero, overwrites } of reader.clusters()) {
      signal.throwIfAborted();
      if (from.name === drive && (!isZero || overwrites === true)) await write(offset, data);
    }
  });
}

async function slice({ formats }: BackupFilesDeps, disk: RandomAccess, part: string): Promise<RandomAccess> {
  if (part === WHOLE_DISK) return disk;
  const partitions = (await formats.partitions(disk)) ?? [];
  const found = partitions.find(({ number }) => part === `part${number}`);
  if (found === undefined) throw refused(`the disk has no partition '${part}'`);
  return {
    size: found.size,
    read: (offset, length) =>
      offset < 0 || offset >= found.size
        ? Promise.resolve(new Uint8Array())
        : disk.read(found.offset + offset, Math.min(length, found.size - offset)),
  };
}

function rowOf(path: readonly string[], { name, kind, size, mtime }: TreeFile): FileRow {
  return {
    path,
    text: name,
    type: kind,
    leaf: kind !== "d",
    ...(kind === "f" ? { size } : {}),
    mtime,
  };
}
