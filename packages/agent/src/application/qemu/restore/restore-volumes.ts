// Volumes for the disks of an archive, and their content.
import { refused } from "@gpve/domain/request/failures.ts";
import { AppError } from "@gpve/contracts/errors.ts";
import type { ArchiveReader, DiskAccess, OpenDisks } from "@gpve/domain/backup/backup-ports.ts";
import { contentOf } from "@gpve/domain/storage/definition.ts";
import { formatVolumeId, parseVolumeId } from "@gpve/domain/storage/volume-id.ts";
import { isCloudinitVolume, listDrives } from "@gpve/domain/vm/config/drive.ts";
import { parseVmConfig } from "@gpve/domain/vm/config/parse-config.ts";
import { readBackupMap } from "@gpve/domain/vm/change/restore-config.ts";
import { allocateCloudinit, type CloudinitDrivePorts } from "../config/cloudinit-drive.ts";
import { Pace } from "../../guest/backup/pace.ts";
import type { RestoreArgs, RestoreState, RestoreWork } from "./restore-request.ts";
import { volumeOf } from "../../guest/guest-storages.ts";
import type { Clock } from "@gpve/kit/clock.ts";

export interface RestoreVolumesPorts extends CloudinitDrivePorts {
  readonly clock: Clock;
}

const DEFAULT_STORAGE = "local";

export async function makeRestoredVolumes(
  host: RestoreVolumesPorts,
  args: RestoreArgs,
  reader: ArchiveReader,
  conf: string,
  state: RestoreState,
  work: RestoreWork,
): Promise<void> {
  for (const { key, device, storage: from, format } of readBackupMap(conf)) {
    if (state.volumes[key] !== undefined) continue;
    const found = reader.header.devices.find(({ name }) => name === device);
    if (found === undefined) throw refused(`archive does not contain data for drive '${key}'`);
    const storage = args.storage ?? (from === "" ? DEFAULT_STORAGE : from);
    const plugin = await openStorage(host, args, storage);
    const volname = await plugin.alloc(
      // swtpm reads and writes plain bytes only.
      { vmid: args.vmid, format: key === "tpmstate0" ? "raw" : plugin.format(format), size: found.size },
      { signal: work.signal },
    );
    state.volumes[key] = formatVolumeId({ storage, volname });
    await work.checkpoint();
    work.log(`new volume ID is '${state.volumes[key]}'`);
  }
}

/** Filled when the VM starts; their names say whose they are. */
export async function makeCloudinitDiscs(
  host: RestoreVolumesPorts,
  args: RestoreArgs,
  conf: string,
  state: RestoreState,
  work: RestoreWork,
): Promise<void> {
  const { values } = parseVmConfig(conf, { vmid: args.vmid, digestOf: () => "" });
  for (const { key, drive } of listDrives(values)) {
    const volume = parseVolumeId(drive.file);
    if (!isCloudinitVolume(drive.file) || volume === undefined || state.discs?.[key] !== undefined) continue;
    const extension = /\.(raw|qcow2|vmdk)$/.exec(volume.volname)?.[1];
    const storage = args.storage ?? volume.storage;
    const plugin = await openStorage(host, args, storage);
    const format = plugin.format(extension ?? "raw");
    // The one of the VM that is replaced serves as well: nothing in it is worth keeping.
    const { volname } = plugin.own(args.vmid, `vm-${args.vmid}-cloudinit`, format);
    const there = formatVolumeId({ storage, volname });
    const volid =
      state.existing?.includes(there) === true
        ? there
        : await allocateCloudinit(host, args.vmid, storage, format, work);
    state.discs = { ...state.discs, [key]: volid };
    await work.checkpoint();
    work.log(`new volume ID is '${volid}'`);
  }
}

export function requireAllowed({ allowedStorages }: RestoreArgs, storage: string): void {
  if (allowedStorages?.includes(storage) === false)
    throw new AppError(
      "access.denied",
      `Permission check failed (/storage/${storage}, Datastore.AllocateSpace)`,
    );
}

async function openStorage(host: RestoreVolumesPorts, args: RestoreArgs, storage: string) {
  const plugin = host.storages.plugin(storage);
  if (!contentOf(host.storages.definition(storage)).has("images"))
    throw refused(`Content type 'images' is not available on storage '${storage}'`);
  requireAllowed(args, storage);
  await plugin.activate();
  return plugin;
}

/** All disks are open at once: their clusters come mixed. Resolves when the archive is known to be whole. */
export async function fillVolumes(
  host: RestoreVolumesPorts,
  tools: OpenDisks,
  reader: ArchiveReader,
  conf: string,
  volumes: Readonly<Record<string, string>>,
  work: RestoreWork & { readonly bwlimit: number },
): Promise<void> {
  const devices = readBackupMap(conf).flatMap(({ key, device }) => {
    const volid = volumes[key];
    return volid === undefined ? [] : [{ device, volid }];
  });
  const open = async (
    rest: readonly { device: string; volid: string }[],
    disks: ReadonlyMap<string, DiskAccess>,
  ): Promise<void> => {
    const [next, ...others] = rest;
    if (next === undefined) return copyClusters(host, reader, disks, work);
    const { plugin, volname } = volumeOf(host, next.volid);
    const { node, format } = await plugin.attach(volname);
    work.log(`map '${next.device}' to '${plugin.path(volname)}' (write zeros = 0)`);
    await tools.withImage({ node, format, access: "rw" }, (disk) =>
      open(others, new Map([...disks, [next.device, disk]])),
    );
  };
  await open(devices, new Map());
}

async function copyClusters(
  host: RestoreVolumesPorts,
  reader: ArchiveReader,
  disks: ReadonlyMap<string, DiskAccess>,
  work: RestoreWork & { readonly bwlimit: number },
): Promise<void> {
  const total = reader.header.devices.reduce((sum, { size }) => sum + size, 0);
  const pace = new Pace(work.bwlimit, host.clock, work.signal);
  const started = host.clock.now();
  let done = 0;
  let sparse = 0;
  let told = 0;
  for await (const { device, offset, data, isZero, overwrites } of reader.clusters()) {
    work.signal.throwIfAborted();
    const disk = disks.get(device.name);
    if (!isZero) await disk?.write(offset, data);
    // New volumes read as zeroes already.
    else if (overwrites === true) await disk?.writeZeroes(offset, data.length);
    if (isZero) sparse += data.length;
    done += data.length;
    work.progress(total === 0 ? 1 : done / total);
    const percent = total === 0 ? 100 : Math.floor((done / total) * 100);
    if (percent > told) {
      told = percent;
      const seconds = Math.round((host.clock.now() - started) / 1000);
      work.log(`progress ${percent}% (read ${done} bytes, duration ${seconds} sec)`);
    }
    if (!isZero) await pace.after(data.length);
  }
  for (const disk of disks.values()) await disk.flush();
  const share = total === 0 ? "0" : ((sparse / total) * 100).toPrecision(3);
  work.log(`total bytes read ${done}, sparse bytes ${sparse} (${share}%)`);
}
