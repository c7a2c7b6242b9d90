// Reads what lies in a directory storage, as rows. Headers are read, no process is started, except for VMDKs.
import type { Stats } from "node:fs";
import { lstat, readdir } from "node:fs/promises";
import { join } from "node:path";
import { given } from "@gpve/contracts/given.ts";
import {
  namesGuest,
  NOTES_SUFFIX,
  PARENT_SUFFIX,
  parseBackupName,
  PROTECTED_SUFFIX,
} from "@gpve/domain/storage/backup-name.ts";
import { contentOf, type StorageDefinition } from "@gpve/domain/storage/definition.ts";
import {
  type ContentType,
  IMPORT_NAME,
  ISO_NAME,
  SAFE_NAME,
  TEMPLATE_NAME,
  type NamedVolumeType,
  type VolumeType,
} from "@gpve/domain/storage/content.ts";
import { parseImageName } from "@gpve/domain/storage/dir-volume.ts";
import { storageRefused } from "@gpve/domain/storage/failures.ts";
import type { VolumeInfo, VolumeSize } from "@gpve/domain/storage/plugin.ts";
import { ignore } from "@gpve/kit/background.ts";
import { incrementalParent } from "../../backup/gpvi/incremental-parent.ts";
import { head } from "../../image-tools/inspect-image.ts";
import { parseQcow2Header } from "../../image-tools/qcow2-header.ts";
import { readSideFile } from "./side-file.ts";
import { judgeVmdk, looksLikeVmdk, VMDK_HEAD_BYTES } from "../../image-tools/vmdk-descriptor.ts";
import { volumeFile } from "./volume-file.ts";

/** Enough for the header of every image our tools write; longer ones are read again. */
const SHORT_HEAD = 4_096;

export interface ListedStorage {
  readonly definition: StorageDefinition;
  readonly directory: (type: VolumeType) => string;
  readonly backupTime: (name: string) => number | undefined;
}

export async function listDirectory(
  { definition, directory, backupTime }: ListedStorage,
  { content, vmid }: { readonly content?: readonly ContentType[]; readonly vmid?: number },
): Promise<VolumeInfo[]> {
  const rows: VolumeInfo[] = [];
  for (const type of contentOf(definition)) {
    // Those are named by the clusters that have them.
    if (type === "volumes" || (content !== undefined && !content.includes(type))) continue;
    // Containers' disks are images too; both types share one directory, so it is read once.
    if (type === "rootdir" && wantsImages(content, definition)) continue;
    const images = type === "images" || type === "rootdir";
    rows.push(
      ...(images
        ? await listImages(directory("images"), vmid)
        : await listFiles(directory(type), type, vmid, backupTime)),
    );
  }
  return rows;
}

/** Size of an image by its header. Throws when the file is not there or not what its name says. */
export async function imageSize(
  path: string,
  format: string,
): Promise<VolumeSize & { readonly ctime: number }> {
  const facts = await lstat(path);
  if (facts.isSymbolicLink()) throw storageRefused(`${path} is a link where a file should be`);
  const common = { used: facts.blocks * 512, ctime: Math.floor(facts.ctimeMs / 1000), format };
  if (format === "subvol") return { ...common, size: 0, used: 0 };
  if (format === "qcow2") {
    const header = parseQcow2Header(await head(path, SHORT_HEAD));
    if (header === undefined) throw new RangeError("Image is not in qcow2 format");
    return {
      ...common,
      size: header.size,
      ...given({ parent: header.backingFile }),
    };
  }
  if (format === "vmdk") {
    const start = await head(path, VMDK_HEAD_BYTES);
    if (!looksLikeVmdk(start)) throw new RangeError("Image is not in vmdk format");
    const verdict = judgeVmdk(start);
    return { ...common, size: verdict.ok ? verdict.capacity : facts.size };
  }
  return { ...common, size: facts.size };
}

export async function listImages(directory: string, vmid: number | undefined): Promise<VolumeInfo[]> {
  const owners = (await namesIn(directory)).filter((name) => /^[1-9]\d+$/.test(name));
  const rows: VolumeInfo[] = [];
  for (const owner of owners) {
    if (vmid !== undefined && Number(owner) !== vmid) continue;
    const folder = join(directory, owner);
    // One that is a link is no guest's.
    if ((await lstat(folder).catch(() => undefined))?.isDirectory() !== true) continue;
    for (const name of await namesIn(folder)) {
      const row = await imageRow(directory, Number(owner), name);
      if (row !== undefined) rows.push(row);
    }
  }
  return rows;
}

async function imageRow(directory: string, owner: number, name: string): Promise<VolumeInfo | undefined> {
  const image = parseImageName(name);
  if (image === undefined) return undefined;
  const path = join(directory, String(owner), name);
  const facts = await imageFacts(path, image.format);
  if (facts === undefined) return undefined;
  const base = /^\.\.\/([1-9]\d*)\/([^/\s]+\.(?:raw|qcow2|vmdk))$/.exec(facts.parent ?? "");
  const own = `${owner}/${name}`;
  return {
    ...facts,
    volname: base === null ? own : `${base[1]}/${base[2]}/${own}`,
    content: "images",
    vmid: owner,
  };
}

/** undefined = it went away while we looked. What is not what its name says is shown, as `invalid`: it takes space. */
async function imageFacts(
  path: string,
  format: string,
): Promise<Awaited<ReturnType<typeof imageSize>> | undefined> {
  try {
    return await imageSize(path, format);
  } catch (err) {
    if (!(err instanceof RangeError)) return undefined;
    const raw = await imageSize(path, "raw").catch(() => undefined);
    return raw === undefined ? undefined : { ...raw, format: "invalid" };
  }
}

async function listFiles(
  directory: string,
  type: Exclude<NamedVolumeType, "images" | "rootdir">,
  vmid: number | undefined,
  backupTime: (name: string) => number | undefined,
): Promise<VolumeInfo[]> {
  const names = (await namesIn(directory)).filter((name) => !name.startsWith("."));
  const all = new Set(names);
  const rows: VolumeInfo[] = [];
  for (const name of names) {
    const format = formatOf(type, name);
    if (format === undefined) continue;
    const facts = await fileFacts(directory, type, name);
    if (facts?.isFile() !== true) continue;
    const row: VolumeInfo = {
      volname: `${type}/${name}`,
      content: type,
      format,
      size: facts.size,
      used: facts.blocks * 512,
      ctime: Math.floor(facts.ctimeMs / 1000),
    };
    if (type !== "backup") {
      // Media and templates belong to no guest; snippets and images to import are for any of them.
      if (vmid === undefined || type === "snippets" || type === "import") rows.push(row);
      continue;
    }
    if (vmid !== undefined && !namesGuest(name, vmid)) continue;
    const backup = await backupRow(directory, name, row, all, backupTime);
    rows.push(vmid === undefined ? backup : { ...backup, vmid });
  }
  return rows;
}

/** What cannot be used because it leads elsewhere is not shown. */
async function fileFacts(folder: string, type: VolumeType, name: string): Promise<Stats | undefined> {
  try {
    const path = join(folder, name);
    const facts = await lstat(path);
    return facts.isSymbolicLink() ? await lstat(await volumeFile({ type, folder, path })) : facts;
  } catch (err) {
    ignore(err, "it went away, or is a link that is not followed");
    return undefined;
  }
}

async function backupRow(
  directory: string,
  name: string,
  row: VolumeInfo,
  all: ReadonlySet<string>,
  backupTime: (name: string) => number | undefined,
): Promise<VolumeInfo> {
  const parsed = parseBackupName(name);
  const path = join(directory, name);
  const notes = all.has(name + NOTES_SUFFIX) ? await noted(path + NOTES_SUFFIX) : undefined;
  const parent = parsed?.container === "gpvi" ? await parentOf(path) : undefined;
  return {
    ...row,
    ctime: backupTime(name) ?? row.ctime,
    subtype: parsed?.type ?? "unknown",
    ...given({ vmid: parsed?.vmid }),
    ...given({ notes }),
    ...(parent === undefined ? {} : { parent: `backup/${parent}` }),
    ...(all.has(name + PROTECTED_SUFFIX) ? { protected: true } : {}),
  };
}

/** The archive that an incremental one builds on; the file beside it spares opening it. */
export async function parentOf(path: string): Promise<string | undefined> {
  const noted = await firstLine(path + PARENT_SUFFIX);
  return noted === "" ? incrementalParent(path) : noted;
}

/** The format a row shows; undefined = not of this type. */
function formatOf(type: Exclude<NamedVolumeType, "images" | "rootdir">, name: string): string | undefined {
  switch (type) {
    case "iso":
      return ISO_NAME.test(name) ? "iso" : undefined;
    case "vztmpl": {
      const found = TEMPLATE_NAME.exec(name);
      return found === null ? undefined : found[1] === undefined ? "tar" : `t${found[1]}`;
    }
    case "backup":
      return parseBackupName(name)?.format;
    case "snippets":
      return "snippet";
    case "import":
      return SAFE_NAME.test(name) ? IMPORT_NAME.exec(name)?.[1] : undefined;
  }
}

export async function namesIn(directory: string): Promise<string[]> {
  try {
    return (await readdir(directory)).sort();
  } catch (err) {
    if ((err as NodeJS.ErrnoException).code === "ENOENT" || (err as NodeJS.ErrnoException).code === "ENOTDIR")
      return [];
    throw err;
  }
}

/** The first line of notes; an empty file has none. */
async function noted(path: string): Promise<string | undefined> {
  const text = await readSideFile(path);
  return text === "" ? undefined : text.split("\n", 1)[0];
}

async function firstLine(path: string): Promise<string> {
  return (await readSideFile(path)).split("\n", 1)[0] ?? "";
}

function wantsImages(asked: readonly ContentType[] | undefined, definition: StorageDefinition): boolean {
  return contentOf(definition).has("images") && (asked === undefined || asked.includes("images"));
}
