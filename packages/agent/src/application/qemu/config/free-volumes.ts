import { splitStorageList } from "@gpve/domain/storage/definition.ts";
import { formatVolumeId, parseVolumeId } from "@gpve/domain/storage/volume-id.ts";
import { addUnused, listDrives } from "@gpve/domain/vm/config/drive.ts";
import type { VmConfig, VmValues } from "@gpve/domain/vm/config/vm-config.ts";
import { volumeOf, type GuestStorages } from "../../guest/guest-storages.ts";
import type { VmConfigs } from "./vm-configs.ts";

export interface FreeVolumesPorts {
  readonly storages: GuestStorages;
  readonly configs: VmConfigs;
}

/** Volumes of a VM on the given storages, by name: what an undo may compare with later. */
export async function listVolumes(
  host: FreeVolumesPorts,
  vmid: number,
  storages: readonly string[],
): Promise<string[]> {
  const found: string[] = [];
  for (const storage of storages) {
    const plugin = host.storages.plugin(storage);
    await plugin.activate();
    for (const { volname } of await plugin.list({ content: ["images"], vmid }))
      found.push(formatVolumeId({ storage, volname }));
  }
  return found;
}

export async function freeVolume(
  host: FreeVolumesPorts,
  volid: string,
  log: (line: string) => void,
): Promise<void> {
  const { plugin, volname } = volumeOf(host, volid);
  await plugin.activate();
  if (await plugin.free(volname)) log(`removed volume '${volid}'`);
}

/** Volumes named for this VM: its disks, unused ones and saved RAM, in every section. */
export function ownedVolumes(host: FreeVolumesPorts, vmid: number, config: VmConfig): string[] {
  const sections = [config.values, config.pending, ...Object.values(config.snapshots)];
  const all = sections.flatMap((values) => [
    ...listDrives(values).map(({ drive }) => drive.file),
    ...unusedVolumes(values),
    ...(values["vmstate"] === undefined ? [] : [values["vmstate"]]),
  ]);
  return [...new Set(all)].filter((volid) => isOwned(host, vmid, volid));
}

/** Whether linked clones read from a volume. */
export async function hasClones(host: FreeVolumesPorts, volid: string): Promise<boolean> {
  const { plugin, volname } = volumeOf(host, volid);
  if (!plugin.parse(volname).isBase) return false;
  await plugin.activate();
  const images = await plugin.list({ content: ["images"] });
  // A clone names the image it builds on, and not what that one builds on.
  const own = volname.split("/").slice(-2).join("/");
  return images.some((image) => image.volname.startsWith(`${own}/`));
}

/** Left over by a backup that did not end as it should. */
export function fleecingImages(host: FreeVolumesPorts, vmid: number, { special }: VmConfig): string[] {
  const listed = splitStorageList(special["fleecing"]?.["fleecing-images"]);
  return listed.filter((volid) => isOwned(host, vmid, volid));
}

export function isOwned(host: Pick<FreeVolumesPorts, "storages">, vmid: number, volid: string): boolean {
  if (parseVolumeId(volid) === undefined) return false;
  const { plugin, volname } = volumeOf(host, volid);
  const parsed = plugin.parse(volname);
  return parsed.type === "images" && parsed.vmid === vmid;
}

/** A detached disk is kept as unused only by its owner: volumes of others, lent to this VM, are just let go. */
export function withoutLent(
  host: FreeVolumesPorts,
  vmid: number,
  before: VmConfig,
  after: VmConfig,
): VmConfig {
  const detached = new Set(listDrives(before.values).map(({ drive }) => drive.file));
  const isLent = ([key, value]: [string, string]): boolean =>
    /^unused\d+$/.test(key) &&
    before.values[key] === undefined &&
    detached.has(value) &&
    !isOwned(host, vmid, value);
  const values = Object.fromEntries(Object.entries(after.values).filter((entry) => !isLent(entry)));
  return { ...after, values };
}

function unusedVolumes(values: VmValues): string[] {
  return Object.entries(values).flatMap(([key, value]) => (/^unused\d+$/.test(key) ? [value] : []));
}

/** Volumes of this VM that no section names any more: deleted unused disks, disks removed by force, cloud-init drives. */
export async function freeDropped(
  host: FreeVolumesPorts,
  vmid: number,
  before: VmConfig,
  after: VmConfig,
  log: (line: string) => void,
): Promise<void> {
  const kept = new Set(ownedVolumes(host, vmid, after));
  for (const volid of ownedVolumes(host, vmid, before)) {
    if (kept.has(volid)) continue;
    try {
      await freeVolume(host, volid, log);
    } catch (err) {
      // Still there, so still somebody's: the next try finds it.
      await host.configs.change(vmid, (config) => ({ ...config, values: addUnused(config.values, volid) }));
      throw err;
    }
  }
}
