// Storage type `dir`: volumes are files below one directory.
import { lstat, rename, rm, stat } from "node:fs/promises";
import { dirname, join } from "node:path";
import { given } from "@gpve/contracts/given.ts";
import { messageOf } from "@gpve/contracts/errors.ts";
import { fileNode, isDiskFormat, type DiskFormat, type ImageLayer } from "@gpve/domain/storage/block-node.ts";
import type { ContentType, ImageFormat, VolumeType } from "@gpve/domain/storage/content.ts";
import { contentDirs, storagePath } from "@gpve/domain/storage/definition.ts";
import {
  contentDirectories,
  formatDirVolume,
  parseImageName,
  relativePathOf,
  requireDirVolume,
} from "@gpve/domain/storage/dir-volume.ts";
import { storageExists, storageMissing, storageRefused } from "@gpve/domain/storage/failures.ts";
import type {
  AllocRequest,
  ImageSource,
  ImportTarget,
  OwnName,
  StorageFeature,
  StoragePlugin,
  StorageSnapshot,
  StorageStatus,
  StorageWork,
  VolumeInfo,
  VolumeMoment,
  VolumeSize,
  VolumeStream,
} from "@gpve/domain/storage/plugin.ts";
import { freeDiskName, refuseBaseName, type VolumeName } from "@gpve/domain/storage/volume-name.ts";
import { isMissingFile } from "@gpve/kit/missing-file.ts";
import type { LayeredImage } from "../../image-tools/image-node.ts";
import type { ImageTools } from "../../image-tools/image-tools.ts";
import {
  isMarkedProtected,
  markProtected,
  readNotes,
  removeSideFiles,
  writeNotes,
} from "./backup-attributes.ts";
import { activateDirectory, directoryStatus, type DirectoryPlace } from "./dir-activation.ts";
import { ovaMember } from "../fetch/ova.ts";
import { requireNoChild, requireUnusedBase } from "./dir-dependents.ts";
import { dirHas } from "./dir-features.ts";
import type { DirPluginDeps } from "./dir-plugin-deps.ts";
import { imageSize, listDirectory, namesIn } from "./dir-listing.ts";
import { baseReference, imagesBelow } from "./image-chain.ts";
import { fillFromStream, readImageStream } from "../../image-tools/image-stream.ts";
import { importableImage } from "../../image-tools/importable-image.ts";
import { makeDirectory } from "./make-directory.ts";
import type { EmptyImage } from "../../image-tools/empty-image.ts";
import { DIRECTORY_MODE, makeImage, makeReadOnly, removeIfEmpty } from "./make-image.ts";
import { QemuImg, type Preallocation } from "../../image-tools/qemu-img.ts";
import { volumeFile } from "./volume-file.ts";

const SNAPSHOT_NAME = /^[a-zA-Z][a-zA-Z0-9_-]*$/;

export class DirPlugin implements StoragePlugin {
  readonly type = "dir";
  readonly storage: string;
  readonly #deps: DirPluginDeps;
  readonly #root: string;
  readonly #directories: Partial<Record<VolumeType, string>>;
  readonly #tools: ImageTools;
  readonly #qemuImg: QemuImg;

  constructor(deps: DirPluginDeps) {
    this.#deps = deps;
    this.storage = deps.definition.storage;
    const root = storagePath(deps.definition);
    if (root === undefined) throw storageRefused(`storage '${this.storage}' has no path`);
    this.#root = root;
    this.#directories = contentDirs(deps.definition);
    const preallocation = deps.definition.options["preallocation"] as Preallocation | undefined;
    this.#tools = deps.tools;
    this.#qemuImg = new QemuImg(this.#tools, preallocation);
  }

  activate(): Promise<void> {
    return activateDirectory(this.#place());
  }

  /** A directory needs no letting go. */
  async deactivate(): Promise<void> {}

  status(): Promise<StorageStatus> {
    return directoryStatus(this.#place());
  }

  /** Where the files of a content type lie. */
  directory(type: VolumeType): string {
    return join(this.#root, this.#directories[type] ?? contentDirectories[type]);
  }

  parse(volname: string): VolumeName {
    return requireDirVolume(volname);
  }

  path(volname: string): string {
    return join(this.#root, relativePathOf(this.parse(volname), this.#directories));
  }

  async file(volname: string): Promise<string> {
    const { type } = this.parse(volname);
    // Others' folders are judged when the storage is activated; that of media may have been led elsewhere since.
    if (type !== "images") await this.#deps.guard(this.#deps.definition);
    try {
      return await volumeFile({ type, folder: this.directory(type), path: this.path(volname) });
    } catch (err) {
      if (!isMissingFile(err)) throw err;
      throw storageMissing(`volume '${this.storage}:${volname}' does not exist`);
    }
  }

  own(vmid: number, plain: string, format: DiskFormat): OwnName {
    const name = `${plain}.${format}`;
    return { name, volname: `${vmid}/${name}` };
  }

  format(wanted?: string): DiskFormat {
    const own = this.#deps.definition.options["format"];
    const preferred = wanted ?? (typeof own === "string" ? own : "raw");
    return isDiskFormat(preferred) ? preferred : "raw";
  }

  backupFolder(): string {
    return this.directory("backup");
  }

  volumesFolder(): string {
    return this.directory("volumes");
  }

  block(volname: string): ImageLayer {
    const volume = this.parse(volname);
    const { format } = volume;
    if (!isDiskFormat(format)) {
      throw storageRefused(`volume '${volname}' of format '${format}' is no block device`);
    }
    return { node: fileNode(this.path(volname)), format };
  }

  async attach(volname: string, { snapshot }: VolumeMoment = {}): Promise<ImageSource> {
    const volume = this.parse(volname);
    if (volume.format.startsWith("ova+")) return ovaMember(await this.file(volname), volume.name);
    const { path: _path, ...image } = await this.#openable(volname);
    const fromOutside = volume.type !== "images";
    return { ...image, fromOutside, ...given({ snapshot }) };
  }

  async detach(): Promise<void> {
    // Nor does a file.
  }

  liveWork(): "qemu" | "storage" {
    return "qemu";
  }

  has(feature: StorageFeature, volname: string, of: { readonly snapshot?: string } = {}): boolean {
    return dirHas(feature, this.parse(volname), of.snapshot);
  }

  async alloc(request: AllocRequest, work: StorageWork = {}): Promise<string> {
    if (request.format === "subvol" && request.size !== 0) {
      throw storageRefused("storage does not support subvol quotas");
    }
    return this.#make(request.vmid, request.format, request.name, async (image) => {
      if (request.format === "subvol") return;
      await this.#qemuImg.create(image, request.format, request.size, work);
    });
  }

  async free(volname: string): Promise<boolean> {
    const volume = this.parse(volname);
    const path = this.path(volname);
    if (await this.isProtected(volname)) {
      throw storageRefused(`cannot remove protected volume '${volname}' on '${this.storage}'`);
    }
    if (volume.isBase) await requireUnusedBase(this.directory("images"), volume);
    if (volume.type === "backup") await requireNoChild(this.directory("backup"), volume.name);
    const facts = await lstat(path).catch(() => undefined);
    if (facts?.isDirectory() === true) await rm(path, { recursive: true, force: true });
    else await rm(path, { force: true });
    if (volume.type === "backup") await removeSideFiles(path);
    if (volume.type === "images") await removeIfEmpty(dirname(path));
    return facts !== undefined;
  }

  list(
    filter: { readonly content?: readonly ContentType[]; readonly vmid?: number } = {},
  ): Promise<VolumeInfo[]> {
    const { definition, backupTime } = this.#deps;
    const directory = (type: VolumeType): string => this.directory(type);
    return listDirectory({ definition, directory, backupTime }, filter);
  }

  async info(volname: string): Promise<VolumeSize> {
    const volume = this.parse(volname);
    const path = await this.file(volname);
    try {
      // What is no disk image is a row of bytes to everybody who asks for its size.
      const format = isDiskFormat(volume.format) || volume.format === "subvol" ? volume.format : "raw";
      const { ctime: _ctime, ...size } = await imageSize(path, format);
      return size;
    } catch (cause) {
      const why = messageOf(cause);
      throw storageRefused(`volume_size_info on '${this.storage}:${volname}' failed: ${why}`, cause);
    }
  }

  async resize(volname: string, size: number, work: StorageWork = {}): Promise<void> {
    const image = await this.#openable(volname);
    const { format } = image;
    if (format === "vmdk") throw storageRefused("can't resize this image format");
    const now = await this.info(volname);
    if (size < now.size) throw storageRefused("shrinking disks is not supported");
    if (size <= now.size) return;
    if (format === "qcow2") await this.#qemuImg.dropBitmaps(image, "inconsistent");
    await this.#qemuImg.resize(image, size, work);
  }

  async snapshot(volname: string, name: string, work: StorageWork = {}): Promise<void> {
    await this.#snapshotWork("-c", volname, name, work);
  }

  async rollback(volname: string, name: string, work: StorageWork = {}): Promise<void> {
    const image = await this.#openable(volname);
    // What they say of changes is not true any more afterwards.
    if (image.format === "qcow2") await this.#qemuImg.dropBitmaps(image, "all");
    await this.#snapshotWork("-a", volname, name, work);
  }

  async deleteSnapshot(volname: string, name: string, work: StorageWork = {}): Promise<void> {
    await this.#snapshotWork("-d", volname, name, work);
  }

  async snapshots(volname: string): Promise<StorageSnapshot[]> {
    const image = await this.#openable(volname);
    return image.format === "qcow2" ? this.#qemuImg.snapshots(image) : [];
  }

  async createBase(volname: string): Promise<string> {
    const volume = this.parse(volname);
    if (volume.type !== "images") throw storageRefused(`create_base on wrong vtype '${volume.type}'`);
    if (volume.isBase) throw storageRefused("create_base not possible with base image");
    if (volume.format === "subvol") throw storageRefused("create_base not possible with subvolumes");
    const image = await this.#openable(volname);
    const name = volume.name.replace(/^vm-/, "base-");
    if (name === volume.name) throw storageRefused(`unable to make a base image of '${volname}'`);
    if (volume.format === "qcow2") await this.#qemuImg.dropBitmaps(image, "all");
    const target = formatDirVolume({ ...volume, name, isBase: true });
    await this.#move(this.path(volname), this.path(target), (path) => `file '${path}'`);
    await makeReadOnly(this.path(target));
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
    const { size } = await this.info(volname);
    const origin = { vmid: base.vmid, name: base.name };
    const made = await this.#make(vmid, "qcow2", undefined, (image) =>
      this.#qemuImg.createLinked(image, { reference: baseReference(origin), format, size }, work),
    );
    return formatDirVolume({ ...this.parse(made), base: origin });
  }

  async rename(volname: string, vmid: number, name?: string): Promise<string> {
    const volume = this.parse(volname);
    if (volume.type !== "images") throw storageRefused(`rename_volume on wrong vtype '${volume.type}'`);
    if (volume.isBase) throw storageRefused("renaming a base image is not supported");
    if (name !== undefined) refuseBaseName(name, vmid);
    await this.info(volname);
    const directory = join(this.directory("images"), String(vmid));
    await makeDirectory(directory, DIRECTORY_MODE);
    const prefix = volume.format === "subvol" ? "subvol" : "vm";
    const wanted =
      name ?? freeDiskName(vmid, await namesIn(directory), `.${volume.format}`, prefix, this.storage);
    if (parseImageName(wanted)?.format !== volume.format) {
      throw storageRefused(`illegal name '${wanted}' - wrong extension for format '${volume.format}'`);
    }
    const target = formatDirVolume({ ...volume, vmid, name: wanted });
    await this.#move(this.path(volname), this.path(target), () => `target volume '${wanted}'`);
    await this.#deps.ownership?.(this.path(target), vmid);
    await removeIfEmpty(dirname(this.path(volname)));
    return target;
  }

  async importFrom(source: ImageSource, target: ImportTarget, work: StorageWork = {}): Promise<string> {
    const { format } = target;
    if (format === "subvol") throw storageRefused("cannot import a disk image as a subvolume");
    const image = await importableImage(source, this.#tools, work.signal);
    return this.#make(target.vmid, format, target.name, async ({ path }) => {
      await this.#qemuImg.convert(image, { path, format }, work);
      const { size } = await imageSize(path, format);
      if (target.size !== undefined && target.size > size) {
        await this.#qemuImg.resize({ node: fileNode(path), format }, target.size, work);
      }
    });
  }

  async exportStream(volname: string): Promise<VolumeStream> {
    const volume = this.parse(volname);
    const { path, format } = await this.#openable(volname);
    if (volume.base !== undefined) {
      throw storageRefused(`cannot export '${volname}' as it is: it builds on '${volume.base.name}'`);
    }
    return readImageStream(path, format);
  }

  async importStream(
    stream: VolumeStream,
    target: { readonly vmid: number; readonly name?: string },
    work: StorageWork = {},
  ): Promise<string> {
    const { format } = stream;
    if (format === "subvol") throw storageRefused("cannot import a subvolume from a stream");
    return this.#make(target.vmid, format, target.name, (image) =>
      fillFromStream(image, { ...stream, format }, work),
    );
  }

  notes(volname: string): Promise<string> {
    return readNotes(this.#backupPath(volname, "only backups can have notes"));
  }

  async setNotes(volname: string, notes: string): Promise<void> {
    const path = this.#backupPath(volname, "only backups can have notes");
    await this.info(volname);
    await writeNotes(path, notes);
  }

  async isProtected(volname: string): Promise<boolean> {
    return this.parse(volname).type === "backup" && isMarkedProtected(this.path(volname));
  }

  async setProtected(volname: string, on: boolean): Promise<void> {
    const path = this.#backupPath(volname, "only backups support attribute 'protected'");
    await this.info(volname);
    await markProtected(path, on);
  }

  #make(
    vmid: number,
    format: ImageFormat,
    name: string | undefined,
    fill: (image: EmptyImage) => Promise<void>,
  ): Promise<string> {
    const made = { storage: this.storage, vmid, format, name, ownership: this.#deps.ownership };
    return makeImage(this.directory("images"), made, fill);
  }

  async #snapshotWork(
    verb: "-c" | "-a" | "-d",
    volname: string,
    name: string,
    work: StorageWork,
  ): Promise<void> {
    if (!SNAPSHOT_NAME.test(name)) throw storageRefused(`invalid snapshot name '${name}'`);
    const image = await this.#openable(volname);
    if (image.format !== "qcow2") throw storageRefused("can't snapshot this image format");
    await this.#qemuImg.snapshot(verb, name, image, work);
  }

  /** An image that names no file it should not, with all that it builds on. */
  async #openable(volname: string): Promise<Omit<LayeredImage, "region"> & { readonly path: string }> {
    const { base } = this.parse(volname);
    const { format } = this.block(volname);
    const path = await this.file(volname);
    // What cannot be read is refused by its volume's name.
    await this.info(volname);
    const backing = await imagesBelow(this.directory("images"), { path, format }, base);
    return { path, node: fileNode(path), format, ...(backing.length === 0 ? {} : { backing }) };
  }

  async #move(from: string, to: string, what: (path: string) => string): Promise<void> {
    const there = await stat(to).catch(() => undefined);
    if (there !== undefined) throw storageExists(`${what(to)} already exists`);
    await rename(from, to);
  }

  #backupPath(volname: string, otherwise: string): string {
    if (this.parse(volname).type === "backup") return this.path(volname);
    throw storageRefused(otherwise);
  }

  #place(): DirectoryPlace {
    const { definition, mounts, guard } = this.#deps;
    return { definition, root: this.#root, directory: (type) => this.directory(type), mounts, guard };
  }
}
