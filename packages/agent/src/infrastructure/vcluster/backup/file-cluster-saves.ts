// Copies and archives of virtual clusters as files:
//
//   FOLDER/clusters/<name>/saves/<label>/   store.jsonl, keys.json, and vnodes/ that were put away; of a cluster with an etcd
//                                           that is alone: etcd/ as it was when it did not run
//   FOLDER/clusters/<name>/unpacked/        an archive that is being restored
//   archive: manifest.json, keys.json, store.jsonl, vnodes/<vnode>/kubelet/gpve-volumes/<volume>/…
import { existsSync, lstatSync, mkdirSync, renameSync, rmSync } from "node:fs";
import { join } from "node:path";
import { AppError } from "@gpve/contracts/errors.ts";
import type {
  ClusterManifest,
  ClusterSaves,
  OtherVolumes,
  SaveWork,
} from "@gpve/domain/vcluster/backup/cluster-saves.ts";
import type { Identity } from "@gpve/domain/vcluster/backup/identity.ts";
import { replicaSlot } from "@gpve/domain/vcluster/overlay.ts";
import { calledOf, type KeptCluster } from "@gpve/domain/vcluster/ports.ts";
import { shownVirtualClusterSpec } from "@gpve/domain/vcluster/vcluster-spec.ts";
import { VOLUMES_FOLDER } from "@gpve/domain/vcluster/vnode/local-volumes.ts";
import { writeFileAtomic } from "@gpve/kit/atomic-file.ts";
import { ignore } from "@gpve/kit/background.ts";
import type { Clock } from "@gpve/kit/clock.ts";
import type { Exec } from "@gpve/kit/exec.ts";
import { backupStore, restoreBackup, verifyBackup } from "@gpve/store/backup/backup.ts";
import { EVERYTHING } from "@gpve/store/backup/digest.ts";
import { fromUtf8, prefixEnd, utf8 } from "@gpve/store/keys.ts";
import type { Store } from "@gpve/store/port.ts";
import { readAll } from "@gpve/store/read-all.ts";
import { placeVolumes, removeAllVolumes, VNODES, volumesFolder } from "../../vnode/volumes-place.ts";
import { EtcdPairFiles, requireOwn } from "../standby/etcd-pair-files.ts";
import { copyEtcd } from "./etcd-copy.ts";
import { moveFolder } from "./move-folder.ts";
import { discardArchive, writeArchive } from "./pack-archive.ts";
import { manifestText, readManifest } from "./read-manifest.ts";
import { loadKeys, saveKeys } from "./saved-keys.ts";
import { firstMember, unpackArchive } from "./unpack-archive.ts";
import { requireNotHollow } from "./volume-holes.ts";
import { fetchVolumes, isFolder, namesIn, ownVolumeFolders, partsOf, VNODE_NAME } from "./volume-parcels.ts";

export interface FileClusterSavesDeps {
  /** DIR/vclusters */
  readonly folder: string;
  readonly exec: Exec;
  readonly clock: Clock;
  /** The folder for persistent volumes on that storage, which is ready; throws why there is none on this node. */
  readonly volumeStorage: (storage: string) => Promise<string>;
  /** Opens a cluster's store for as long as `use` takes, also of one that does not run. */
  readonly withStore: <T>(
    cluster: KeptCluster,
    signal: AbortSignal,
    use: (store: Store) => Promise<T>,
  ) => Promise<T>;
}

const MANIFEST = "manifest.json";
const KEYS = "keys.json";
const STORE = "store.jsonl";
const ETCD = "etcd";
/** Where Kubernetes has them in its store. */
const PERSISTENT_VOLUMES = utf8("/registry/persistentvolumes/");

export class FileClusterSaves implements ClusterSaves {
  readonly #deps: FileClusterSavesDeps;

  constructor(deps: FileClusterSavesDeps) {
    this.#deps = deps;
  }

  async keep(
    cluster: KeptCluster,
    label: string,
    work: SaveWork,
  ): Promise<{ readonly revision: number; readonly objects: number }> {
    const folder = this.#saved(cluster.name, label);
    if (!hasOwnEtcd(cluster)) return this.#save(cluster, folder, work);
    requireOwn(this.#place(""), cluster.name);
    mkdirSync(folder, { recursive: true, mode: 0o700 });
    saveKeys(this.#place(cluster.name, "pki"), join(folder, KEYS));
    await copyEtcd(this.#deps.exec, this.#place(cluster.name, ETCD), join(folder, ETCD), work.signal);
    work.say("the data of its etcd is saved");
    return { revision: 0, objects: 0 };
  }

  async bringBack(cluster: KeptCluster, label: string, work: SaveWork): Promise<void> {
    const folder = this.#saved(cluster.name, label);
    if (!hasOwnEtcd(cluster)) return this.#load(cluster, folder, "whole", work);
    requireOwn(this.#place(""), cluster.name);
    // Of one that an older version of ours kept there are none.
    if (existsSync(join(folder, KEYS)))
      loadKeys(join(folder, KEYS), this.#place(cluster.name, "pki"), "whole");
    new EtcdPairFiles(this.#place("")).exchanged(cluster.name);
    await copyEtcd(this.#deps.exec, join(folder, ETCD), this.#place(cluster.name, ETCD), work.signal);
    work.say("its etcd has the data that was saved");
  }

  isKept(name: string, label: string): boolean {
    return [STORE, ETCD].some((each) => existsSync(join(this.#saved(name, label), each)));
  }

  drop(name: string, label: string): void {
    removeAllVolumes(join(this.#saved(name, label), VNODES));
    rmSync(this.#saved(name, label), { recursive: true, force: true });
  }

  putWorkersAway(name: string, label: string): void {
    const [from, to] = [this.#place(name, VNODES), join(this.#saved(name, label), VNODES)];
    if (!existsSync(from) || existsSync(to)) return;
    mkdirSync(this.#saved(name, label), { recursive: true, mode: 0o700 });
    renameSync(from, to);
  }

  bringWorkersBack(name: string, label: string): void {
    const [from, to] = [join(this.#saved(name, label), VNODES), this.#place(name, VNODES)];
    if (!existsSync(from)) return;
    removeAllVolumes(to);
    rmSync(to, { recursive: true, force: true });
    renameSync(from, to);
  }

  async pack(
    cluster: KeptCluster,
    path: string,
    work: SaveWork & { readonly others?: readonly OtherVolumes[] },
  ): Promise<ClusterManifest> {
    const { exec, clock } = this.#deps;
    const { name, tenant, spec, version } = cluster;
    const folder = this.#saved(name, "pack");
    this.drop(name, "pack");
    try {
      const here = ownVolumeFolders(this.#place(name));
      await requireNotHollow(exec, this.#place(name), here, work.signal);
      const fetched = await fetchVolumes(join(folder, "others"), work.others ?? [], work);
      // A worker is on one node: what this one has of it counts.
      const elsewhere = fetched.filter(({ vnode }) => !here.some((each) => each.vnode === vnode));
      const volumes = [...here, ...elsewhere];
      await this.#requireAllHere(
        cluster,
        volumes.flatMap(({ names }) => names),
        work.signal,
      );
      const { revision, objects } = await this.#save(cluster, folder, work);
      const manifest: ClusterManifest = {
        name: calledOf(cluster),
        tenant,
        spec: shownVirtualClusterSpec(spec),
        kubernetesVersion: version,
        createdAt: new Date(clock.now()).toISOString(),
        revision,
        objects,
        volumes: volumes.flatMap(({ vnode, names }) => names.map((volume) => `${vnode}/${volume}`)),
      };
      writeFileAtomic(join(folder, MANIFEST), manifestText(manifest));
      const parts = [{ folder, members: [MANIFEST, KEYS, STORE] }, ...partsOf(volumes)];
      await writeArchive(exec, path, parts, work.signal);
      return manifest;
    } finally {
      this.drop(name, "pack");
    }
  }

  async discard(path: string): Promise<void> {
    await discardArchive(path);
  }

  async manifest(path: string): Promise<ClusterManifest> {
    return readManifest(path, await firstMember(path, MANIFEST));
  }

  async unpack(cluster: KeptCluster, path: string, identity: Identity, work: SaveWork): Promise<void> {
    const folder = this.#place(cluster.name, "unpacked");
    rmSync(folder, { recursive: true, force: true });
    mkdirSync(folder, { recursive: true, mode: 0o700 });
    try {
      const { volumes } = await this.manifest(path);
      const members = [KEYS, STORE, ...(volumes.length === 0 ? [] : [VNODES])];
      await unpackArchive(path, folder, members, work.signal);
      for (const name of [KEYS, STORE]) requirePlainFile(folder, name);
      await this.#load(cluster, folder, identity, work);
      if (volumes.length > 0) await this.#takeVolumes(cluster, join(folder, VNODES));
    } finally {
      rmSync(folder, { recursive: true, force: true });
    }
  }

  async #save(
    cluster: KeptCluster,
    folder: string,
    { signal, say }: SaveWork,
  ): Promise<{ readonly revision: number; readonly objects: number }> {
    const { clock, withStore } = this.#deps;
    mkdirSync(folder, { recursive: true, mode: 0o700 });
    saveKeys(this.#place(cluster.name, "pki"), join(folder, KEYS));
    const file = join(folder, STORE);
    const { revision, count } = await withStore(cluster, signal, (store) =>
      backupStore(store, file, { signal, clock }),
    );
    say(`its store is saved: ${count} keys at revision ${revision}`);
    return { revision, objects: count };
  }

  async #load(
    cluster: KeptCluster,
    folder: string,
    identity: Identity,
    { signal, say }: SaveWork,
  ): Promise<void> {
    const file = join(folder, STORE);
    // Before anything of what is there goes.
    await verifyBackup(file);
    loadKeys(join(folder, KEYS), this.#place(cluster.name, "pki"), identity);
    const { count, revision } = await this.#deps.withStore(cluster, signal, async (store) => {
      const { revision: emptied } = await store.txn({
        compare: [],
        success: [{ type: "delete", ...EVERYTHING }],
      });
      // What was there takes its room until then, and both may be more than a store has.
      await store
        .compact(emptied, { signal })
        .catch((err: unknown) =>
          ignore(err, "where there is room for both it is not needed, else the fill says so"),
        );
      return restoreBackup(file, store, { signal });
    });
    say(`its store has the ${count} keys of revision ${revision}`);
  }

  /** An archive without the volumes of other nodes' workers, or of machines, would look whole, and not be. */
  async #requireAllHere(cluster: KeptCluster, here: readonly string[], signal: AbortSignal): Promise<void> {
    const isMachines = cluster.spec.isolationLevel === "L3";
    if (cluster.overlay === undefined && !isMachines) return;
    const names: string[] = [];
    await this.#deps.withStore(cluster, signal, (store) =>
      readAll(store, { key: PERSISTENT_VOLUMES, end: prefixEnd(PERSISTENT_VOLUMES) }, signal, (kvs) => {
        for (const { key } of kvs) names.push(fromUtf8(key.subarray(PERSISTENT_VOLUMES.length)));
      }),
    );
    const missing = names.filter((name) => !here.includes(name));
    if (missing.length === 0) return;
    throw new AppError(
      "feature.unsupported",
      `virtual cluster '${cluster.name}' cannot be backed up: ${missing.length} of its persistent volumes are ${isMachines ? "on disks of its machines (level L3)" : "on no node that could be asked"} (${missing.slice(0, 3).join(", ")}), and an archive ${isMachines ? "has folders of a node. Save what is in them by other means and delete their claims, or keep such data outside of the cluster" : "without them would look whole. Try again when all of its nodes are there, or delete their claims"}`,
    );
  }

  /** Other members than volumes are left where they are, and go with the folder. */
  async #takeVolumes({ name: cluster, spec }: KeptCluster, from: string): Promise<void> {
    const { exec, volumeStorage } = this.#deps;
    const storage = spec.volumeStorage === undefined ? undefined : await volumeStorage(spec.volumeStorage);
    if (!isFolder(from)) throw new AppError("request.invalid", "what the backup has of volumes is no folder");
    for (const vnode of namesIn(from)) {
      const kubeletOf = join(from, vnode, "kubelet");
      const found = join(kubeletOf, VOLUMES_FOLDER);
      const way = [join(from, vnode), kubeletOf, found];
      const volumes = (): readonly string[] => namesIn(found).map((name) => join(found, name));
      if (!VNODE_NAME.test(vnode))
        throw new AppError("request.invalid", `the backup has volumes of '${vnode}', which is no worker`);
      if (!way.every(isFolder) || !volumes().every(isFolder))
        throw new AppError("request.invalid", `the backup has volumes of '${vnode}' that are no folders`);
      const place = this.#place(cluster, VNODES, vnode);
      mkdirSync(join(place, "kubelet"), { recursive: true, mode: 0o700 });
      if (storage !== undefined) placeVolumes(place, cluster, storage);
      await moveFolder(exec, found, volumesFolder(place));
    }
  }

  #saved(name: string, label: string): string {
    return this.#place(name, "saves", label);
  }

  #place(name: string, ...more: readonly string[]): string {
    return join(this.#deps.folder, "clusters", name, ...more);
  }
}

/** One of several members is read while it runs, and not put back: the others are the store too. */
function hasOwnEtcd({ spec, overlay }: KeptCluster): boolean {
  return spec.backingStore === "etcd" && replicaSlot(overlay) === undefined;
}

/** In a forged archive it could be a link to what is kept of somebody else's cluster. */
function requirePlainFile(folder: string, name: string): void {
  if (lstatSync(join(folder, name), { throwIfNoEntry: false })?.isFile() === true) return;
  throw new AppError("request.invalid", `the backup has a '${name}' that is no plain file, or none`);
}
