// Volumes that hold what a guest overwrites while its backup runs, on the storage that the backup names for them. The
// configuration lists them from before they are made until after they are gone, so that whoever comes next finds them.
import { given } from "@gpve/contracts/given.ts";
import { messageOf } from "@gpve/contracts/errors.ts";
import { storageExists, storageRefused } from "@gpve/domain/storage/failures.ts";
import { formatVolumeId } from "@gpve/domain/storage/volume-id.ts";
import { fleecingImages } from "../config/free-volumes.ts";
import type { BackupDisk } from "./backup-disks.ts";
import type { BackupWork } from "../../guest/backup/backup-request.ts";
import { volumeOf, type GuestStorages } from "../../guest/guest-storages.ts";
import type { VmConfigs } from "../config/vm-configs.ts";

export interface FleecingImagesPorts {
  readonly storages: GuestStorages;
  readonly configs: VmConfigs;
}

/** A drive that QEMU reads for us, and the file that holds what the guest overwrites. */
export interface Fleeced {
  readonly key: string;
  readonly scratch: string;
  /** The file is this volume. */
  readonly volid?: string;
}

const SECTION = "fleecing";
const IMAGES = "fleecing-images";

/** Firmware's variables are too small to be worth it. */
export function isWorthFleecing(key: string): boolean {
  return !/^(?:tpmstate|efidisk)\d$/.test(key);
}

/** The volumes that the disks of a backup would have on a storage. */
export function fleecingVolumes(
  host: FleecingImagesPorts,
  vmid: number,
  disks: readonly BackupDisk[],
  storage: string,
): Fleeced[] {
  const plugin = host.storages.plugin(storage);
  if (plugin.format("qcow2") !== "qcow2")
    throw storageRefused(
      `cannot use storage '${storage}' for fleecing: it holds no qcow2 images - choose another one`,
    );
  return disks
    .filter(({ key }) => isWorthFleecing(key))
    .map(({ key }, number) => {
      const { volname } = plugin.own(vmid, `vm-${vmid}-fleece-${number}`, "qcow2");
      const scratch = plugin.path(volname);
      return { key, scratch, volid: formatVolumeId({ storage, volname }) };
    });
}

/** Whatever happens, `dropFleecingImages` puts things right afterwards. */
export async function makeFleecingImages(
  host: FleecingImagesPorts,
  vmid: number,
  fleeced: readonly Fleeced[],
  disks: readonly BackupDisk[],
  work: BackupWork,
): Promise<void> {
  const wanted = fleeced.filter((each): each is Fleeced & { volid: string } => each.volid !== undefined);
  if (wanted.length === 0) return;
  for (const { volid, scratch } of wanted) await requireFree(host, volid, scratch);
  await record(
    host,
    vmid,
    wanted.map(({ volid }) => volid),
  );
  for (const { key, volid } of wanted) {
    const { plugin, volname } = volumeOf(host, volid);
    const size = disks.find((disk) => disk.key === key)?.size ?? 0;
    const { name } = plugin.parse(volname);
    await plugin.alloc({ vmid, format: "qcow2", name, size }, { signal: work.signal });
    work.log(`INFO: drive-${key}: attaching fleecing image ${volid} to QEMU`);
  }
}

/** Frees all that the configuration lists; what cannot be freed stays listed. */
export async function dropFleecingImages(
  host: FleecingImagesPorts,
  vmid: number,
  work: Pick<BackupWork, "log" | "warn">,
): Promise<void> {
  const config = host.configs.find(vmid);
  const volids = config === undefined ? [] : fleecingImages(host, vmid, config);
  if (volids.length === 0) return;
  const failed: string[] = [];
  for (const volid of volids) {
    work.log(`INFO: removing (old) fleecing image '${volid}'`);
    try {
      const { plugin, volname } = volumeOf(host, volid);
      await plugin.activate();
      await plugin.free(volname);
    } catch (err) {
      work.warn(`error removing fleecing image '${volid}' - ${messageOf(err)}`);
      failed.push(volid);
    }
  }
  await record(host, vmid, failed);
}

/** A volume of that name that no backup of ours made is somebody's own. */
async function requireFree(host: FleecingImagesPorts, volid: string, path: string): Promise<void> {
  const { plugin, volname } = volumeOf(host, volid);
  await plugin.activate();
  const { vmid } = plugin.parse(volname);
  const there = await plugin.list({ content: ["images"], ...given({ vmid }) });
  if (there.some((each) => each.volname === volname))
    throw storageExists(`disk image '${path}' already exists`);
}

async function record(host: FleecingImagesPorts, vmid: number, volids: readonly string[]): Promise<void> {
  await host.configs.change(vmid, (config) => {
    const { [SECTION]: _old, ...rest } = config.special;
    const special = volids.length === 0 ? rest : { ...rest, [SECTION]: { [IMAGES]: volids.join(",") } };
    return { ...config, special };
  });
}
