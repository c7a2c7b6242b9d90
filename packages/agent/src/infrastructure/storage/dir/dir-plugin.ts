// Storage type `dir`: volumes are files below one directory.
import { createReadStream, createWriteStream } from "node:fs";
import {
  chmod,
  mkdir,
  open,
  readFile,
  rename,
  rm,
  rmdir,
  stat,
  statfs,
  unlink,
  utimes,
} from "node:fs/promises";
import { basename, dirname, join } from "node:path";
import { Readable } from "node:stream";
import { pipeline } from "node:stream/promises";
import { AppError } from "@gpve/contracts/errors.ts";
import {
  logNameOf,
  NOTES_SUFFIX,
  PARENT_SUFFIX,
  parseBackupName,
  PROTECTED_SUFFIX,
} from "@gpve/domain/storage/backup-name.ts";
import type { ContentType, ImageFormat, VolumeType } from "@gpve/domain/storage/content.ts";
import {
  contentDirs,
  contentOf,
  storagePath,
  type StorageDefinition,
} from "@gpve/domain/storage/definition.ts";
import {
  contentDirectories,
  formatDirVolume,
  freeDiskName,
  parseImageName,
  relativePathOf,
  requireDirVolume,
  type DirVolume,
} from "@gpve/domain/storage/dir-volume.ts";
import { storageExists, storageMissing, storageRefused } from "@gpve/domain/storage/failures.ts";
import type {
  AllocRequest,
  BlockDescription,
  ImageSource,
  StorageFeature,
  StoragePlugin,
  StorageSnapshot,
  StorageStatus,
  StorageWork,
  VolumeInfo,
  VolumeOwnership,
  VolumeSize,
  VolumeStream,
} from "@gpve/domain/storage/plugin.ts";
import { ignore } from "@gpve/kit/background.ts";
import type { Exec } from "@gpve/kit/exec.ts";
import { imageSize, listFiles, listImages, namesIn } from "./dir-listing.ts";
import { inspectImage, refuseReferences } from "./inspect-image.ts";
import { QemuImg, type DiskFormat, type Preallocation } from "./qemu-img.ts";

export interface DirPluginDeps {
  readonly definition: StorageDefinition;
  readonly exec: Exec;
  /** Civil time of a backup's name as seconds since 1970, in this node's zone. */
  readonly backupTime?: (name: string) => number | undefined;
  readonly ownership?: VolumeOwnership;
  readonly mounts?: () => Promise<string>;
}

const PRIVATE_FILE = 0o600;
/** Guests run under their own users and must be able to pass through to their files. */
const DIRECTORY = 0o711;
const SNAPSHOT_NAME = /^[a-zA-Z][a-zA-Z0-9_-]*$/;

export class DirPlugin implements StoragePlugin {
  readonly type = "dir";
  readonly storage: string;
  readonly #deps: DirPluginDeps;
  readonly #root: string;
  readonly #directories: Partial<Record<VolumeType, string>>;
  readonly #qemuImg: QemuImg;

  constructor(deps: DirPluginDeps) {
    this.#deps = deps;
    this.storage = deps.definition.storage;
    const root = storagePath(deps.definition);
    if (root === undefined) throw storageRefused(`storage '${this.storage}' has no path`);
    this.#root = root;
    this.#directories = contentDirs(deps.definition);
    this.#qemuImg = new QemuImg(deps.exec);
  }

  async activate(): Promise<void> {
    const { options } = this.#deps.definition;
    await this.#requireMounted(options["is_mountpoint"]);
    const mayMake = (name: string): boolean => (options[name] ?? options["mkdir"] ?? true) === true;
    if (mayMake("create-base-path")) await mkdir(this.#root, { recursive: true, mode: DIRECTORY });
    const facts = await stat(this.#root).catch(() => undefined);
    if (facts?.isDirectory() !== true) {
      throw new AppError(
        "node.unavailable",
        `unable to activate storage '${this.storage}' - directory '${this.#root}' does not exist or is unreachable`,
        { pveStatus: 500 },
      );
    }
    if (!mayMake("create-subdirs")) return;
    for (const type of contentOf(this.#deps.definition)) {
      await mkdir(this.directory(type), { recursive: true, mode: DIRECTORY });
    }
  }

  async deactivate(): Promise<void> {
    // A directory needs no letting go.
  }

  async status(): Promise<StorageStatus> {
    await this.#requireMounted(this.#deps.definition.options["is_mountpoint"]);
    const facts = await statfs(this.#root);
    return {
      active: true,
      total: facts.blocks * facts.bsize,
      used: (facts.blocks - facts.bfree) * facts.bsize,
      avail: facts.bavail * facts.bsize,
    };
  }

  /** Where the files of a content type lie. */
  directory(type: VolumeType): string {
    return join(this.#root, this.#directories[type] ?? contentDirectories[type]);
  }

  parse(volname: string): DirVolume {
    return requireDirVolume(volname);
  }

  path(volname: string): string {
    return join(this.#root, relativePathOf(this.parse(volname), this.#directories));
  }

  block(volname: string): BlockDescription {
    const volume = this.parse(volname);
    const { format } = volume;
    if (format !== "raw" && format !== "qcow2" && format !== "vmdk") {
      throw storageRefused(`volume '${volname}' of format '${format}' is no block device`);
    }
    return { driver: "file", filename: this.path(volname), format };
  }

  has(feature: StorageFeature, volname: string, of: { readonly snapshot?: string } = {}): boolean {
    const { type, format, isBase } = this.parse(volname);
    if (type !== "images") return feature === "copy" && of.snapshot === undefined;
    switch (feature) {
      case "snapshot":
        return format === "qcow2" && of.snapshot === undefined && !isBase;
      case "clone":
        return isBase && format !== "subvol" && of.snapshot === undefined;
      case "copy":
        return of.snapshot === undefined ? true : format === "qcow2" && !isBase;
      case "template":
        return format !== "subvol" && !isBase && of.snapshot === undefined;
      case "sparseinit":
        return format !== "subvol" && of.snapshot === undefined;
      case "resize":
      case "rename":
        return of.snapshot === undefined && !isBase && (feature === "rename" || format !== "vmdk");
      case "replicate":
        return false;
    }
  }

  async alloc(request: AllocRequest, work: StorageWork = {}): Promise<string> {
    if (request.format === "subvol" && request.size !== 0) {
      throw storageRefused("storage does not support subvol quotas");
    }
    return this.#make(request.vmid, request.format, request.name, async (path) => {
      if (request.format === "subvol") return;
      await this.#qemuImg.create(path, request.format, request.size, this.#preallocation(), work);
    });
  }

  async free(volname: string): Promise<boolean> {
    const volume = this.parse(volname);
    const path = this.path(volname);
    if (await this.isProtected(volname)) {
      throw storageRefused(`cannot remove protected volume '${volname}' on '${this.storage}'`);
    }
    if (volume.isBase) await this.#requireUnused(volume);
    const facts = await stat(path).catch(() => undefined);
    if (facts?.isDirectory() === true) await rm(path, { recursive: true, force: true });
    else await rm(path, { force: true });
    if (volume.type === "backup") await this.#removeSideFiles(path);
    if (volume.type === "images") await removeIfEmpty(dirname(path));
    return facts !== undefined;
  }

  async list(
    filter: { readonly content?: readonly ContentType[]; readonly vmid?: number } = {},
  ): Promise<VolumeInfo[]> {
    const rows: VolumeInfo[] = [];
    for (const type of contentOf(this.#deps.definition)) {
      if (filter.content !== undefined && !filter.content.includes(type)) continue;
      // Containers' disks are images too; both types share one directory, so it is read once.
      if (type === "rootdir" && wantsImages(filter.content, this.#deps.definition)) continue;
      const images = type === "images" || type === "rootdir";
      rows.push(
        ...(images
          ? await listImages(this.directory("images"), filter.vmid)
          : await listFiles(this.directory(type), type, filter.vmid, (name) =>
              this.#deps.backupTime?.(name),
            )),
      );
    }
    return rows;
  }

  async info(volname: string): Promise<VolumeSize> {
    const volume = this.parse(volname);
    const path = this.path(volname);
    try {
      const { ctime: _ctime, ...size } = await imageSize(path, volume.format);
      const shown =
        volume.type === "backup" ? (parseBackupName(volume.name)?.format ?? size.format) : size.format;
      return { ...size, format: shown };
    } catch (cause) {
      if ((cause as NodeJS.ErrnoException).code === "ENOENT") {
        throw storageMissing(`volume '${this.storage}:${volname}' does not exist`);
      }
      throw storageRefused(`volume_size_info on '${this.storage}:${volname}' failed`, cause);
    }
  }

  async resize(volname: string, size: number, work: StorageWork = {}): Promise<void> {
    const { path, format } = await this.#openable(volname);
    if (format === "vmdk") throw storageRefused("can't resize this image format");
    const now = await this.info(volname);
    if (size < now.size) throw storageRefused("shrinking disks is not supported");
    if (size > now.size) await this.#qemuImg.resize(path, format, size, work);
  }

  async snapshot(volname: string, name: string, work: StorageWork = {}): Promise<void> {
    await this.#snapshotWork("-c", volname, name, work);
  }

  async rollback(volname: string, name: string, work: StorageWork = {}): Promise<void> {
    await this.#snapshotWork("-a", volname, name, work);
  }

  async deleteSnapshot(volname: string, name: string, work: StorageWork = {}): Promise<void> {
    await this.#snapshotWork("-d", volname, name, work);
  }

  async snapshots(volname: string): Promise<StorageSnapshot[]> {
    const { path, format } = await this.#openable(volname);
    if (format !== "qcow2") return [];
    const { snapshots } = await this.#qemuImg.info(path, format);
    return (Array.isArray(snapshots) ? snapshots : []).map((each: Record<string, unknown>) => ({
      name: String(each["name"]),
      ctime: Number(each["date-sec"]),
    }));
  }

  async createBase(volname: string): Promise<string> {
    const volume = this.parse(volname);
    if (volume.type !== "images") throw storageRefused(`create_base on wrong vtype '${volume.type}'`);
    if (volume.isBase) throw storageRefused("create_base not possible with base image");
    if (volume.format === "subvol") throw storageRefused("create_base not possible with subvolumes");
    await this.info(volname);
    const name = volume.name.replace(/^vm-/, "base-");
    if (name === volume.name) throw storageRefused(`unable to make a base image of '${volname}'`);
    const target = formatDirVolume({ ...volume, name, isBase: true });
    await this.#move(this.path(volname), this.path(target));
    await chmod(this.path(target), 0o444);
    return target;
  }

  async cloneLinked(volname: string, vmid: number, work: StorageWork = {}): Promise<string> {
    const base = this.parse(volname);
    if (base.type !== "images" || base.vmid === undefined) {
      throw storageRefused(`clone_image on wrong vtype '${base.type}'`);
    }
    if (base.format === "subvol") {
      throw storageRefused("this storage type does not support clone_image on subvolumes");
    }
    if (!base.isBase) throw storageRefused("clone_image only works on base images");
    const { format } = await this.#openable(volname);
    const origin = { vmid: base.vmid, name: base.name };
    const file = `../${base.vmid}/${base.name}`;
    const made = await this.#make(vmid, "qcow2", undefined, (path) =>
      this.#qemuImg.createLinked(dirname(path), basename(path), { file, format }, work),
    );
    return formatDirVolume({ ...this.parse(made), base: origin });
  }

  async rename(volname: string, vmid: number, name?: string): Promise<string> {
    const volume = this.parse(volname);
    if (volume.type !== "images") throw storageRefused(`rename_volume on wrong vtype '${volume.type}'`);
    if (volume.isBase) throw storageRefused("renaming a base image is not supported");
    await this.info(volname);
    const directory = join(this.directory("images"), String(vmid));
    await mkdir(directory, { recursive: true, mode: DIRECTORY });
    const prefix = volume.format === "subvol" ? "subvol" : "vm";
    const wanted = name ?? freeDiskName(vmid, await namesIn(directory), `.${volume.format}`, prefix);
    if (parseImageName(wanted)?.format !== volume.format) {
      throw storageRefused(`illegal name '${wanted}' - wrong extension for format '${volume.format}'`);
    }
    const target = formatDirVolume({ ...volume, vmid, name: wanted });
    await this.#move(this.path(volname), this.path(target));
    await this.#deps.ownership?.(this.path(target), vmid);
    await removeIfEmpty(dirname(this.path(volname)));
    return target;
  }

  async importFrom(
    source: ImageSource,
    target: {
      readonly vmid: number;
      readonly format: ImageFormat;
      readonly name?: string;
      readonly size?: number;
    },
    work: StorageWork = {},
  ): Promise<string> {
    const { format } = target;
    if (format === "subvol") throw storageRefused("cannot import a disk image as a subvolume");
    if (!source.trusted) {
      await inspectImage(source.path, source.format, {
        exec: this.#deps.exec,
        ...(work.signal === undefined ? {} : { signal: work.signal }),
      });
    }
    return this.#make(target.vmid, format, target.name, async (path) => {
      await this.#qemuImg.convert(source, { path, format }, work);
      const { size } = await imageSize(path, format);
      if (target.size !== undefined && target.size > size) {
        await this.#qemuImg.resize(path, format, target.size, work);
      }
    });
  }

  async exportStream(volname: string): Promise<VolumeStream> {
    const volume = this.parse(volname);
    const { path, format } = await this.#openable(volname);
    if (volume.base !== undefined) {
      throw storageRefused(`cannot export '${volname}' as it is: it builds on '${volume.base.name}'`);
    }
    const { size } = await stat(path);
    return { format, size, body: createReadStream(path, { highWaterMark: 1024 * 1024 }) };
  }

  async importStream(
    stream: VolumeStream,
    target: { readonly vmid: number; readonly name?: string },
    work: StorageWork = {},
  ): Promise<string> {
    const { format } = stream;
    if (format === "subvol") throw storageRefused("cannot import a subvolume from a stream");
    return this.#make(target.vmid, format, target.name, async (path) => {
      const file = createWriteStream(path, { flags: "r+", mode: PRIVATE_FILE });
      await pipeline(
        Readable.from(stream.body),
        file,
        work.signal === undefined ? {} : { signal: work.signal },
      );
      const { size } = await stat(path);
      if (size !== stream.size) {
        throw storageRefused(`the stream ended after ${size} of ${stream.size} bytes`);
      }
      await refuseReferences(path, format, { allowBacking: undefined });
    });
  }

  async notes(volname: string): Promise<string> {
    this.#requireBackup(volname, "notes");
    const text = await readFile(this.path(volname) + NOTES_SUFFIX, "utf8").catch(() => "");
    return text;
  }

  async setNotes(volname: string, notes: string): Promise<void> {
    this.#requireBackup(volname, "notes");
    await this.info(volname);
    const path = this.path(volname) + NOTES_SUFFIX;
    if (notes === "") {
      await rm(path, { force: true });
      return;
    }
    const temporary = `${path}.new`;
    const handle = await open(temporary, "w", PRIVATE_FILE);
    try {
      await handle.writeFile(notes);
      await handle.sync();
    } finally {
      await handle.close();
    }
    await rename(temporary, path);
  }

  async isProtected(volname: string): Promise<boolean> {
    if (this.parse(volname).type !== "backup") return false;
    return (await stat(this.path(volname) + PROTECTED_SUFFIX).catch(() => undefined)) !== undefined;
  }

  async setProtected(volname: string, on: boolean): Promise<void> {
    this.#requireBackup(volname, "protected");
    await this.info(volname);
    const path = this.path(volname) + PROTECTED_SUFFIX;
    if (!on) {
      await rm(path, { force: true });
      return;
    }
    await (await open(path, "a", PRIVATE_FILE)).close();
    const now = new Date();
    await utimes(path, now, now);
  }

  /** Reserves a name with an empty file, fills it, and takes everything back when that fails. */
  async #make(
    vmid: number,
    format: ImageFormat,
    name: string | undefined,
    fill: (path: string) => Promise<void>,
  ): Promise<string> {
    const directory = join(this.directory("images"), String(vmid));
    await mkdir(directory, { recursive: true, mode: DIRECTORY });
    const reserved = await this.#reserve(directory, vmid, format, name);
    const path = join(directory, reserved);
    try {
      await fill(path);
      if (format !== "subvol") await chmod(path, PRIVATE_FILE);
      await this.#deps.ownership?.(path, vmid);
    } catch (err) {
      await rm(path, { recursive: true, force: true });
      await removeIfEmpty(directory);
      throw err;
    }
    return `${vmid}/${reserved}`;
  }

  async #reserve(
    directory: string,
    vmid: number,
    format: ImageFormat,
    given: string | undefined,
  ): Promise<string> {
    if (given !== undefined) {
      const parsed = parseImageName(given);
      if (parsed === undefined) throw storageRefused(`unable to parse volume filename '${given}'`);
      if (parsed.format !== format) {
        throw storageRefused(
          `illegal name '${given}' - wrong extension for format ('${parsed.format} != '${format}')`,
        );
      }
    }
    for (;;) {
      const prefix = format === "subvol" ? "subvol" : "vm";
      const name = given ?? freeDiskName(vmid, await namesIn(directory), `.${format}`, prefix);
      const path = join(directory, name);
      try {
        if (format === "subvol") await mkdir(path, { mode: 0o755 });
        else await (await open(path, "wx", PRIVATE_FILE)).close();
        return name;
      } catch (err) {
        if ((err as NodeJS.ErrnoException).code !== "EEXIST") throw err;
        // With a free choice somebody else took that name just now: the next look finds another.
        if (given !== undefined) throw storageExists(`disk image '${path}' already exists`);
      }
    }
  }

  async #snapshotWork(
    verb: "-c" | "-a" | "-d",
    volname: string,
    name: string,
    work: StorageWork,
  ): Promise<void> {
    if (!SNAPSHOT_NAME.test(name)) throw storageRefused(`invalid snapshot name '${name}'`);
    const { path, format } = await this.#openable(volname);
    if (format !== "qcow2") throw storageRefused("can't snapshot this image format");
    await this.#qemuImg.snapshot(verb, name, path, work);
  }

  /** Path and format of an image that names no file it should not. */
  async #openable(volname: string): Promise<{ path: string; format: DiskFormat }> {
    const volume = this.parse(volname);
    const { filename, format } = this.block(volname);
    await this.info(volname);
    const allowBacking = volume.base === undefined ? undefined : `../${volume.base.vmid}/${volume.base.name}`;
    await refuseReferences(filename, format, { allowBacking });
    return { path: filename, format };
  }

  async #requireUnused(base: DirVolume): Promise<void> {
    const reference = `../${base.vmid}/${base.name}`;
    const user = (await listImages(this.directory("images"), undefined)).find(
      (row) => row.parent === reference,
    );
    if (user !== undefined) {
      throw storageRefused(`base volume '${base.name}' is still in use by linked cloned '${user.volname}'`);
    }
  }

  async #move(from: string, to: string): Promise<void> {
    if ((await stat(to).catch(() => undefined)) !== undefined) {
      throw storageExists(`disk image '${to}' already exists`);
    }
    await rename(from, to);
  }

  async #removeSideFiles(path: string): Promise<void> {
    const log = logNameOf(basename(path));
    const files = [
      path + NOTES_SUFFIX,
      path + PARENT_SUFFIX,
      ...(log === undefined ? [] : [join(dirname(path), log)]),
    ];
    for (const file of files)
      await unlink(file).catch((err: unknown) => ignore(err, "a side file need not exist"));
  }

  #requireBackup(volname: string, attribute: string): void {
    if (this.parse(volname).type === "backup") return;
    throw storageRefused(`attribute '${attribute}' is not supported for volume '${this.storage}:${volname}'`);
  }

  #preallocation(): Preallocation | undefined {
    return this.#deps.definition.options["preallocation"] as Preallocation | undefined;
  }

  async #requireMounted(setting: unknown): Promise<void> {
    if (typeof setting !== "string" || /^(?:no|off|false|0)$/i.test(setting)) return;
    const point = /^(?:yes|on|true|1)$/i.test(setting) ? this.#root : setting;
    const text = await (this.#deps.mounts?.() ?? readFile("/proc/self/mountinfo", "utf8"));
    const mounted = text.split("\n").some((line) => line.split(" ")[4] === point);
    if (!mounted) {
      throw new AppError(
        "node.unavailable",
        `unable to activate storage '${this.storage}' - directory is expected to be a mount point but is not mounted: '${point}'`,
        { pveStatus: 500 },
      );
    }
  }
}

function wantsImages(asked: readonly ContentType[] | undefined, definition: StorageDefinition): boolean {
  return contentOf(definition).has("images") && (asked === undefined || asked.includes("images"));
}

async function removeIfEmpty(directory: string): Promise<void> {
  await rmdir(directory).catch((err: unknown) => ignore(err, "other volumes of the guest may be there"));
}
