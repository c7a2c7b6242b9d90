// Volumes that only this node has: which of them go along with a VM, and those that nobody has open on their way.
import type { MovePeer, OfferedVolume } from "@gpve/domain/guest/move-channel.ts";
import { conflict } from "@gpve/domain/request/failures.ts";
import { isShared } from "@gpve/domain/storage/definition.ts";
import { isInQemu, parseDrive } from "@gpve/domain/vm/config/drive.ts";
import type { VmConfig } from "@gpve/domain/vm/config/vm-config.ts";
import { usedVolumes, type UsedVolume } from "@gpve/domain/vm/migrate/movable.ts";
import { mapStorage, type StorageMap } from "@gpve/domain/vm/migrate/storage-map.ts";
import { volumeOf, type GuestStorages } from "../../guest/guest-storages.ts";
import { isOwned } from "../config/free-volumes.ts";

interface Ports {
  readonly storages: GuestStorages;
}

export interface VolumeWork {
  readonly signal: AbortSignal;
  readonly log: (line: string) => void;
  readonly progress: (fraction: number, text?: string) => void;
  readonly bwlimit?: number | undefined;
}

/** Refuses what cannot go along. */
export async function offeredVolumes(
  host: Ports,
  vmid: number,
  config: VmConfig,
  isRunning: boolean,
  {
    storageMap,
    withLocalDisks,
  }: { readonly storageMap?: StorageMap | undefined; readonly withLocalDisks: boolean },
): Promise<readonly OfferedVolume[]> {
  const local = usedVolumes(config).filter(({ storage }) => !isShared(host.storages.definition(storage)));
  const offered: OfferedVolume[] = [];
  for (const volume of local) {
    const isLive = isRunning && isOpen(config, volume);
    const why = obstacle(config, volume, isLive, withLocalDisks) ?? lender(host, vmid, volume);
    if (why !== undefined)
      throw conflict(`can't migrate local disk '${volume.volid}' (${volume.key}): ${why}`);
    const { plugin, volname } = volumeOf(host, volume.volid);
    await plugin.activate();
    const { size } = await plugin.info(volname);
    const { format } = plugin.block(volname);
    const storage = storageMap === undefined ? volume.storage : mapStorage(storageMap, volume.storage);
    offered.push({ volid: volume.volid, key: volume.key, storage, format, bytes: size, isLive });
  }
  return offered;
}

/** The guest writes to it: its blocks come while it runs. */
function isOpen({ values }: VmConfig, { key, isCurrent, isCdrom, isCloudinit }: UsedVolume): boolean {
  if (!isCurrent || isCdrom || isCloudinit) return false;
  const drive = parseDrive(key, values[key] ?? "");
  return drive !== undefined && isInQemu(values, key);
}

function obstacle(
  config: VmConfig,
  { isCdrom, key }: UsedVolume,
  isLive: boolean,
  withLocalDisks: boolean,
): string | undefined {
  if (isCdrom) return "a disc in a drive stays on its node: take it out, or put it on a shared storage";
  if (!isLive) return undefined;
  if (!withLocalDisks) return "can't live migrate attached local disks without with-local-disks option";
  if (Object.keys(config.snapshots).length > 0)
    return "a running VM with snapshots cannot leave local storage: stop it first, or delete them";
  return parseDrive(key, config.values[key] ?? "")?.snapshot === true
    ? "what it writes is in a temporary file: stop it first"
    : undefined;
}

/** What another guest has lent it stays with that one: gone along, it would be missing there and be freed here. */
function lender(host: Ports, vmid: number, { volid }: UsedVolume): string | undefined {
  if (isOwned(host, vmid, volid)) return undefined;
  const { plugin, volname } = volumeOf(host, volid);
  const { vmid: owner } = plugin.parse(volname);
  return owner === undefined ? "it is no volume of this VM" : `owned by other VM (owner = VM ${owner})`;
}

/** Names that they have there, by those they have here. */
export async function sendVolumes(
  host: Ports,
  peer: MovePeer,
  volumes: readonly OfferedVolume[],
  { signal, log, progress, bwlimit }: VolumeWork,
): Promise<Record<string, string>> {
  const names: Record<string, string> = {};
  const waiting = volumes.filter(({ isLive }) => !isLive);
  for (const { volid } of waiting) {
    const { plugin, volname } = volumeOf(host, volid);
    const source = await plugin.exportStream(volname);
    log(`sending '${volid}' (${(source.size / 1024 ** 2).toFixed(1)} MiB)`);
    names[volid] = await peer.send(volid, source, {
      signal,
      progress: (fraction) => progress(fraction, volid),
      bytesPerSecond: bwlimit === undefined || bwlimit === 0 ? undefined : bwlimit * 1024,
    });
    log(`'${volid}' is '${names[volid]}' there`);
  }
  return names;
}
