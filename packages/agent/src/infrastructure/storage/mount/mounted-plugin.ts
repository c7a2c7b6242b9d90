// Storage types `nfs` and `cifs`: a mount, then a directory. Nothing goes to the directory before its server has answered.
import type { DiskFormat, ImageLayer } from "@gpve/domain/storage/block-node.ts";
import type { ContentType } from "@gpve/domain/storage/content.ts";
import { contentOf, type StorageDefinition } from "@gpve/domain/storage/definition.ts";
import { networkMountOf } from "@gpve/domain/storage/network-mount.ts";
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
import type { VolumeName } from "@gpve/domain/storage/volume-name.ts";
import { DirPlugin } from "../dir/dir-plugin.ts";
import type { DirPluginDeps } from "../dir/dir-plugin-deps.ts";
import { ServerFolder } from "./server-folder.ts";
import { Touches } from "./touches.ts";

export interface MountedPluginDeps extends DirPluginDeps {
  /** What is kept apart from the definition. */
  readonly secretOf: (storage: string, name: string) => Promise<string | undefined>;
  readonly secretFolder: string;
  /** How long a server may take to answer. */
  readonly patienceMs?: number | undefined;
}

export class MountedPlugin implements StoragePlugin {
  readonly type: string;
  readonly storage: string;
  readonly #definition: StorageDefinition;
  readonly #guard: DirPluginDeps["guard"];
  readonly #inner: DirPlugin;
  readonly #folder: ServerFolder;
  readonly #touches: Touches;
  /** Its folders were made and looked at since the server last failed. */
  #isReady = false;

  constructor(deps: MountedPluginDeps) {
    const { definition, exec, mounts, secretOf, secretFolder, patienceMs } = deps;
    this.type = definition.type;
    this.storage = definition.storage;
    this.#definition = definition;
    this.#guard = deps.guard;
    // Judged here, before anything touches it.
    this.#inner = new DirPlugin({ ...deps, guard: async () => undefined });
    this.#touches = new Touches(this.storage);
    const password = async (): Promise<string | undefined> => secretOf(this.storage, "password");
    const mount = networkMountOf(definition);
    this.#folder = new ServerFolder({ exec, mount, password, secretFolder, mounts, patienceMs });
  }

  async activate(): Promise<void> {
    await this.#reach();
  }

  async deactivate(): Promise<void> {
    this.#isReady = false;
    await this.#folder.unmount();
  }

  status(): Promise<StorageStatus> {
    return this.#reach();
  }

  parse(volname: string): VolumeName {
    return this.#inner.parse(volname);
  }

  own(vmid: number, plain: string, format: DiskFormat): OwnName {
    return this.#inner.own(vmid, plain, format);
  }

  format(wanted?: string): DiskFormat {
    return this.#inner.format(wanted);
  }

  path(volname: string): string {
    return this.#inner.path(volname);
  }

  file(volname: string): Promise<string> {
    return this.#touch(() => this.#inner.file(volname));
  }

  backupFolder(): string {
    return this.#inner.backupFolder();
  }

  volumesFolder(): string {
    return this.#inner.volumesFolder();
  }

  block(volname: string): ImageLayer {
    return this.#inner.block(volname);
  }

  attach(volname: string, of?: VolumeMoment): Promise<ImageSource> {
    return this.#touch(() => this.#inner.attach(volname, of));
  }

  async detach(): Promise<void> {
    // A file needs no letting go.
  }

  has(feature: StorageFeature, volname: string, of?: { readonly snapshot?: string }): boolean {
    return this.#inner.has(feature, volname, of);
  }

  alloc(request: AllocRequest, work?: StorageWork): Promise<string> {
    return this.#work(() => this.#inner.alloc(request, work));
  }

  free(volname: string): Promise<boolean> {
    return this.#touch(() => this.#inner.free(volname));
  }

  list(filter?: {
    readonly content?: readonly ContentType[];
    readonly vmid?: number;
  }): Promise<VolumeInfo[]> {
    return this.#touch(() => this.#inner.list(filter));
  }

  info(volname: string): Promise<VolumeSize> {
    return this.#touch(() => this.#inner.info(volname));
  }

  resize(volname: string, size: number, work?: StorageWork): Promise<void> {
    return this.#work(() => this.#inner.resize(volname, size, work));
  }

  liveWork(): "qemu" | "storage" {
    return this.#inner.liveWork();
  }

  snapshot(volname: string, name: string, work?: StorageWork): Promise<void> {
    return this.#work(() => this.#inner.snapshot(volname, name, work));
  }

  rollback(volname: string, name: string, work?: StorageWork): Promise<void> {
    return this.#work(() => this.#inner.rollback(volname, name, work));
  }

  deleteSnapshot(volname: string, name: string, work?: StorageWork): Promise<void> {
    return this.#work(() => this.#inner.deleteSnapshot(volname, name, work));
  }

  snapshots(volname: string): Promise<StorageSnapshot[]> {
    return this.#work(() => this.#inner.snapshots(volname));
  }

  createBase(volname: string): Promise<string> {
    return this.#touch(() => this.#inner.createBase(volname));
  }

  cloneLinked(volname: string, vmid: number, work?: StorageWork): Promise<string> {
    return this.#work(() => this.#inner.cloneLinked(volname, vmid, work));
  }

  rename(volname: string, vmid: number, name?: string): Promise<string> {
    return this.#touch(() => this.#inner.rename(volname, vmid, name));
  }

  importFrom(source: ImageSource, target: ImportTarget, work?: StorageWork): Promise<string> {
    return this.#work(() => this.#inner.importFrom(source, target, work));
  }

  exportStream(volname: string): Promise<VolumeStream> {
    return this.#work(() => this.#inner.exportStream(volname));
  }

  importStream(
    stream: VolumeStream,
    target: { readonly vmid: number; readonly name?: string },
    work?: StorageWork,
  ): Promise<string> {
    return this.#work(() => this.#inner.importStream(stream, target, work));
  }

  notes(volname: string): Promise<string> {
    return this.#touch(() => this.#inner.notes(volname));
  }

  setNotes(volname: string, notes: string): Promise<void> {
    return this.#touch(() => this.#inner.setNotes(volname, notes));
  }

  isProtected(volname: string): Promise<boolean> {
    return this.#touch(() => this.#inner.isProtected(volname));
  }

  setProtected(volname: string, on: boolean): Promise<void> {
    return this.#touch(() => this.#inner.setProtected(volname, on));
  }

  async #reach(): Promise<StorageStatus> {
    await this.#guard(this.#definition);
    try {
      const status = await this.#folder.reach();
      if (!this.#isReady) await this.#makeReady();
      return status;
    } catch (err) {
      this.#isReady = false;
      throw err;
    }
  }

  async #makeReady(): Promise<void> {
    const { options } = this.#definition;
    const content = contentOf(this.#definition);
    const types = content.has("rootdir") ? new Set([...content, "backup" as const]) : content;
    const folders = [...types].map((type) => this.#inner.directory(type));
    await this.#folder.requirePlain(folders);
    if (options["create-subdirs"] !== false && options["mkdir"] !== false) {
      await this.#folder.makeFolders(folders);
      await this.#folder.requirePlain(folders);
    }
    this.#isReady = true;
  }

  /** Short work, which is over in time or given up. */
  async #touch<T>(work: () => Promise<T>): Promise<T> {
    await this.#reach();
    return this.#touches.run(work);
  }

  /** Work of other programs, which can be cancelled. */
  async #work<T>(work: () => Promise<T>): Promise<T> {
    await this.#reach();
    return work();
  }
}
