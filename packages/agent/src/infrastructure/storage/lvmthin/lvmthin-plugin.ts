// Storage type `lvmthin`: volumes are thin logical volumes of one pool, and devices to QEMU. Snapshots and linked clones
// share blocks in the pool; no image format is involved.
import type { BlockNode, DiskFormat, ImageLayer } from "@gpve/domain/storage/block-node.ts";
import type { ContentType, ImageFormat } from "@gpve/domain/storage/content.ts";
import type { StorageDefinition } from "@gpve/domain/storage/definition.ts";
import { storageExists, storageMissing, storageRefused } from "@gpve/domain/storage/failures.ts";
import {
  lvmSnapshotName,
  lvmSnapshotOf,
  parseLvmVolume,
  requireLvmName,
  requireLvmVolume,
} from "@gpve/domain/storage/lvm-volume.ts";
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
import type { Exec } from "@gpve/kit/exec.ts";
import { KeyedQueue } from "@gpve/kit/keyed-queue.ts";
import { fillFromStream, readImageStream } from "../../image-tools/image-stream.ts";
import type { ImageTools } from "../../image-tools/image-tools.ts";
import { importableImage } from "../../image-tools/importable-image.ts";
import { QemuImg } from "../../image-tools/qemu-img.ts";
import { DeviceNodes } from "../lvm/device-nodes.ts";
import type { LogicalVolume } from "../lvm/lvm-report.ts";
import { VolumeGroup } from "../lvm/volume-group.ts";
import { lvmThinHas } from "./lvmthin-features.ts";

export interface LvmThinPluginDeps {
  readonly definition: StorageDefinition;
  readonly exec: Exec;
  /** What works on images. */
  readonly tools: ImageTools;
}

const SNAPSHOT_NAME = /^[a-zA-Z][a-zA-Z0-9_-]*$/;
const THIN_VOLUME = "V";
const THIN_POOL = "t";
/** By volume group; storages may share one. */
const naming = new KeyedQueue();

export class LvmThinPlugin implements StoragePlugin {
  readonly type = "lvmthin";
  readonly storage: string;
  readonly #pool: string;
  readonly #group: VolumeGroup;
  readonly #nodes: DeviceNodes;
  readonly #tools: ImageTools;
  readonly #qemuImg: QemuImg;

  constructor({ definition, exec, tools }: LvmThinPluginDeps) {
    this.storage = definition.storage;
    const { vgname, thinpool } = definition.options;
    const group = requireLvmName(String(vgname), "volume group");
    this.#pool = requireLvmName(String(thinpool), "thin pool");
    this.#group = new VolumeGroup(group, exec);
    this.#nodes = new DeviceNodes(group, exec);
    this.#tools = tools;
    this.#qemuImg = new QemuImg(tools, "off");
  }

  async activate(): Promise<void> {
    const pool = await this.#thinPool();
    if (!pool.isActive) await this.#group.activate(pool.name);
  }

  async deactivate(): Promise<void> {
    // Other storages may have volumes in the same group.
  }

  async status(): Promise<StorageStatus> {
    const { size, used, isActive } = await this.#thinPool();
    return { active: isActive, total: size, used, avail: size - used };
  }

  parse(volname: string): VolumeName {
    return requireLvmVolume(volname);
  }

  own(_vmid: number, plain: string): OwnName {
    return { name: plain, volname: plain };
  }

  format(): DiskFormat {
    return "raw";
  }

  path(volname: string): string {
    return `/dev/${this.#group.name}/${this.parse(volname).name}`;
  }

  async file(volname: string): Promise<string> {
    throw storageRefused(`volume '${this.storage}:${volname}' is a device: this storage holds no files`);
  }

  backupFolder(): string {
    throw storageRefused(`can't use storage '${this.storage}' for backups - wrong content type`);
  }

  volumesFolder(): string {
    throw storageRefused(`can't use storage '${this.storage}' for persistent volumes - it has no folders`);
  }

  block(volname: string): ImageLayer {
    return { node: this.#node(this.parse(volname).name), format: "raw" };
  }

  async attach(volname: string, { snapshot }: VolumeMoment = {}): Promise<ImageSource> {
    const logical = this.#logical(volname, snapshot);
    const known = await this.#require(logical, volname, snapshot);
    if (!known.isActive) await this.#group.activate(logical);
    await this.#nodes.make(logical);
    // A snapshot is a volume of its own here: nothing is left to choose.
    return { node: this.#node(logical), format: "raw", fromOutside: false };
  }

  /** What guests write to stays active, as in PVE; templates and snapshots are only looked at. */
  async detach(volname: string, { snapshot }: VolumeMoment = {}): Promise<void> {
    if (snapshot === undefined && !this.parse(volname).isBase) return;
    const logical = this.#logical(volname, snapshot);
    await this.#nodes.remove(logical);
    if ((await this.#group.find(logical))?.isActive === true) await this.#group.deactivate(logical);
  }

  has(feature: StorageFeature, volname: string, of: { readonly snapshot?: string } = {}): boolean {
    return lvmThinHas(feature, this.parse(volname), of.snapshot);
  }

  alloc(request: AllocRequest, work: StorageWork = {}): Promise<string> {
    return this.#make(request, work, (logical) =>
      this.#group.createThin(logical, request.size, this.#pool, work),
    );
  }

  async free(volname: string): Promise<boolean> {
    const { name } = this.parse(volname);
    const known = await this.#group.volumes();
    for (const each of known) {
      if (lvmSnapshotOf(name, each.name) === undefined) continue;
      await this.#nodes.remove(each.name);
      await this.#group.remove(each.name);
    }
    await this.#nodes.remove(name);
    if (!known.some((each) => each.name === name)) return false;
    await this.#group.remove(name);
    return true;
  }

  async list(
    filter: { readonly content?: readonly ContentType[]; readonly vmid?: number } = {},
  ): Promise<VolumeInfo[]> {
    const { content, vmid } = filter;
    if (content !== undefined && !content.includes("images") && !content.includes("rootdir")) return [];
    return (await this.#thinVolumes()).flatMap(({ name, size, used, ctime }) => {
      const owner = parseLvmVolume(name)?.vmid;
      if (owner === undefined || (vmid !== undefined && vmid !== owner)) return [];
      return [{ volname: name, content: "images", vmid: owner, format: "raw", size, used, ctime }];
    });
  }

  async info(volname: string): Promise<VolumeSize> {
    const { size, used } = await this.#require(this.parse(volname).name, volname);
    return { size, used, format: "raw" };
  }

  async resize(volname: string, size: number, work: StorageWork = {}): Promise<void> {
    const now = await this.info(volname);
    if (size < now.size) throw storageRefused("shrinking disks is not supported");
    if (size > now.size) await this.#group.extend(volname, size, work);
  }

  liveWork(): "qemu" | "storage" {
    return "storage";
  }

  async snapshot(volname: string, name: string, work: StorageWork = {}): Promise<void> {
    if (!SNAPSHOT_NAME.test(name)) throw storageRefused(`invalid snapshot name '${name}'`);
    const snapshot = lvmSnapshotName(this.parse(volname).name, name);
    const what = `lvcreate snapshot '${this.#group.name}/${snapshot}' error`;
    await this.#group.createThinSnapshot(snapshot, volname, ["-pr"], what, work);
  }

  async rollback(volname: string, name: string, work: StorageWork = {}): Promise<void> {
    const snapshot = this.#logical(volname, name);
    await this.#require(snapshot, volname, name);
    const what = `lvm rollback '${this.#group.name}/${snapshot}' error`;
    await this.#nodes.remove(volname);
    // A second try finds the volume gone already.
    if ((await this.#group.find(volname)) !== undefined) await this.#group.remove(volname);
    await this.#group.createThinSnapshot(volname, snapshot, ["-kn"], what, work);
  }

  async deleteSnapshot(volname: string, name: string): Promise<void> {
    const snapshot = this.#logical(volname, name);
    await this.#require(snapshot, volname, name);
    await this.#nodes.remove(snapshot);
    await this.#group.remove(snapshot);
  }

  async snapshots(volname: string): Promise<StorageSnapshot[]> {
    const { name: volume } = this.parse(volname);
    return (await this.#group.volumes()).flatMap(({ name: logical, ctime }) => {
      const name = lvmSnapshotOf(volume, logical);
      return name === undefined ? [] : [{ name, ctime }];
    });
  }

  async createBase(volname: string): Promise<string> {
    const { isBase, name } = this.parse(volname);
    if (isBase) throw storageRefused("create_base not possible with base image");
    await this.info(volname);
    const base = name.replace(/^vm-/, "base-");
    await this.#nodes.remove(name);
    await this.#group.rename(name, base);
    await this.#group.makeReadOnly(base);
    return base;
  }

  async cloneLinked(volname: string, vmid: number, work: StorageWork = {}): Promise<string> {
    const { isBase, name } = this.parse(volname);
    if (!isBase) throw storageRefused("clone_image only works on base images");
    const what = `clone image '${this.#group.name}/${name}' error`;
    return this.#make({ vmid, format: "raw" }, work, (logical) =>
      this.#group.createThinSnapshot(logical, name, ["-prw", "-kn"], what, work),
    );
  }

  async rename(volname: string, vmid: number, name?: string): Promise<string> {
    const { isBase } = this.parse(volname);
    if (isBase) throw storageRefused("renaming a base image is not supported");
    if (name !== undefined) requireOwnName(name, vmid);
    await this.info(volname);
    const taken = (await this.#group.volumes()).map((each) => each.name);
    const target = name ?? freeDiskName(vmid, taken, "", "vm", this.storage);
    if (taken.includes(target)) throw storageExists(`target volume '${target}' already exists`);
    await this.#nodes.remove(volname);
    await this.#group.rename(volname, target);
    return target;
  }

  async importFrom(source: ImageSource, target: ImportTarget, work: StorageWork = {}): Promise<string> {
    const image = await importableImage(source, this.#tools, work.signal);
    requireRaw(target.format);
    const size = Math.max(await this.#qemuImg.virtualSize(image), target.size ?? 0);
    return this.#filled({ ...target, size }, work, (node) => this.#qemuImg.convertInto(image, node, work));
  }

  async exportStream(volname: string): Promise<VolumeStream> {
    await this.attach(volname);
    const { size } = await this.info(volname);
    return readImageStream(this.#nodes.path(volname), "raw", size);
  }

  importStream(
    stream: VolumeStream,
    target: { readonly vmid: number; readonly name?: string },
    work: StorageWork = {},
  ): Promise<string> {
    const { format, size } = stream;
    return this.#filled({ ...target, format, size }, work, async (_node, volname) => {
      const file = await this.#nodes.open(volname);
      try {
        await fillFromStream({ path: this.#nodes.path(volname), file }, { ...stream, format: "raw" }, work);
        await file.sync();
      } finally {
        await file.close();
      }
    });
  }

  async notes(): Promise<string> {
    throw storageRefused("only backups can have notes");
  }

  async setNotes(): Promise<void> {
    throw storageRefused("only backups can have notes");
  }

  async isProtected(): Promise<boolean> {
    return false;
  }

  async setProtected(): Promise<void> {
    throw storageRefused("only backups support attribute 'protected'");
  }

  /** A new volume with content, or none. */
  async #filled(
    request: AllocRequest,
    work: StorageWork,
    fill: (node: BlockNode, volname: string) => Promise<void>,
  ): Promise<string> {
    const volname = await this.alloc(request, work);
    try {
      await fill(this.#node(volname), volname);
      return volname;
    } catch (err) {
      await this.free(volname);
      throw err;
    }
  }

  async #make(
    { vmid, format, name: given }: Omit<AllocRequest, "size">,
    { signal }: StorageWork,
    create: (logical: string) => Promise<void>,
  ): Promise<string> {
    requireRaw(format);
    if (given !== undefined) requireOwnName(given, vmid);
    // One after the other: who looks for a free number at the same time finds the same one.
    return naming.run(this.#group.name, async () => {
      signal?.throwIfAborted();
      const taken = (await this.#group.volumes()).map(({ name }) => name);
      const name = given ?? freeDiskName(vmid, taken, "", "vm", this.storage);
      await create(name);
      try {
        await this.#nodes.make(name);
        return name;
      } catch (err) {
        await this.free(name);
        throw err;
      }
    });
  }

  #node(logical: string): BlockNode {
    return { driver: "host_device", filename: this.#nodes.path(logical) };
  }

  #logical(volname: string, snapshot: string | undefined): string {
    const { name } = this.parse(volname);
    return snapshot === undefined ? name : lvmSnapshotName(name, snapshot);
  }

  async #require(logical: string, volname: string, snapshot?: string): Promise<LogicalVolume> {
    const found = await this.#group.find(logical);
    if (found !== undefined) return found;
    const what = snapshot === undefined ? "" : `snapshot '${snapshot}' of `;
    throw storageMissing(`${what}volume '${this.storage}:${volname}' does not exist`);
  }

  async #thinVolumes(): Promise<LogicalVolume[]> {
    return (await this.#group.volumes()).filter(
      ({ kind, pool }) => kind === THIN_VOLUME && pool === this.#pool,
    );
  }

  async #thinPool(): Promise<LogicalVolume> {
    const found = await this.#group.find(this.#pool);
    if (found?.kind === THIN_POOL) return found;
    throw storageMissing(`no such thin pool '${this.#group.name}/${this.#pool}'`);
  }
}

function requireRaw(format: ImageFormat): void {
  if (format !== "raw") throw storageRefused(`unsupported format '${format}'`);
}

function requireOwnName(name: string, vmid: number): void {
  refuseBaseName(name, vmid);
  if (!name.startsWith(`vm-${vmid}-`))
    throw storageRefused(`illegal name '${name}' - should be 'vm-${vmid}-*'`);
  requireLvmVolume(name);
}
