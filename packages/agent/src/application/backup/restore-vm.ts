// Restoring an archive as a VM: its id is taken, disks are made and filled, then the configuration names them.
import { AppError } from "@gpve/contracts/errors.ts";
import type { ImageFormat } from "@gpve/domain/storage/content.ts";
import { parseBackupName } from "@gpve/domain/storage/backup-name.ts";
import { formatVolumeId, parseVolumeId } from "@gpve/domain/storage/volume-id.ts";
import { isCloudinitVolume, listDrives } from "@gpve/domain/vm/drive.ts";
import { parseVmConfig } from "@gpve/domain/vm/parse-config.ts";
import { readBackupMap, restoreConfigText } from "@gpve/domain/vm/restore-config.ts";
import { emptyVmConfig } from "@gpve/domain/vm/vm-config.ts";
import type { OperationDefinition } from "@gpve/kit/operation/definition.ts";
import { allocateCloudinit } from "../vm/cloudinit-drive.ts";
import { openChain, openLink } from "./archive-chain.ts";
import { freeVolume, listVolumes } from "../vm/free-volumes.ts";
import { startVm } from "../vm/start-vm.ts";
import { runningVm, volumeOf, type VmHost } from "../vm/vm-host.ts";
import type { ArchiveReader, BackupTools, DiskAccess } from "@gpve/domain/backup/backup-ports.ts";

export interface RestoreArgs {
  readonly vmid: number;
  /** Volume id of the archive. */
  readonly archive: string;
  /** Where disks go; default: where they came from. */
  readonly storage?: string;
  readonly unique: boolean;
  readonly start: boolean;
  /** Storages to look at for what an undo must remove. */
  readonly storages: readonly string[];
}

interface RestoreState {
  existing?: readonly string[];
  /** Drive key -> volume. */
  volumes: Record<string, string>;
  /** The same for cloud-init drives, which no archive holds. */
  discs?: Record<string, string>;
}

export function restoreVmOperation(
  host: VmHost,
  tools: BackupTools,
): OperationDefinition<RestoreArgs, RestoreState> {
  return {
    type: "qmrestore",
    lock: "create",
    initialState: () => ({ volumes: {} }),
    steps: [
      {
        name: "reserve",
        run: async ({ args, state }) => {
          state.existing ??= await listVolumes(host, args.vmid, args.storages);
          if (!host.configs.has(args.vmid))
            await host.configs.create(args.vmid, { ...emptyVmConfig, values: { lock: "create" } });
        },
        undo: async ({ args, state }) => {
          if (state.existing !== undefined) await host.configs.remove(args.vmid);
        },
      },
      {
        name: "restore",
        weight: 10,
        run: async ({ args, state, signal, log, progress, checkpoint }) => {
          const reader = await openArchive(host, tools, args.archive, signal);
          const conf = configOf(reader.header.configs);
          await makeVolumes(host, args, reader, conf, state, log);
          await makeCloudinitDiscs(host, args, conf, state, log);
          await checkpoint();
          const devices = new Map(readBackupMap(conf).map(({ key, device }) => [key, device]));
          await fillVolumes(host, tools, reader, state.volumes, { signal, progress, devices });
          const text = restoreConfigText(conf, {
            volumes: { ...state.volumes, ...state.discs },
            unique: args.unique,
            newMac: host.newMac,
            newUuid: host.newUuid,
          });
          const restored = parseVmConfig(text, { vmid: args.vmid, digestOf: () => "" });
          await host.configs.change(args.vmid, () => restored);
          log(`restored VM ${args.vmid} from '${args.archive}'`);
        },
        undo: async ({ args, state, log }) => {
          const before = new Set(state.existing);
          for (const volid of await listVolumes(host, args.vmid, args.storages))
            if (!before.has(volid)) await freeVolume(host, volid, log);
        },
      },
      {
        name: "start",
        run: async (ctx) => {
          if (ctx.args.start && runningVm(host, ctx.args.vmid) === undefined)
            await startVm(host, ctx.args, ctx);
        },
      },
    ],
  };
}

/** The configuration inside an archive, for GET extractconfig. */
export async function archivedConfigText(host: VmHost, tools: BackupTools, archive: string): Promise<string> {
  const { plugin, volname } = volumeOf(host, archive);
  await plugin.activate();
  const { name } = plugin.parse(volname);
  const link = await openLink(tools, plugin, name);
  await link.close();
  return configOf(link.configs);
}

async function openArchive(
  host: VmHost,
  tools: BackupTools,
  archive: string,
  signal: AbortSignal,
): Promise<ArchiveReader> {
  const { plugin, volname } = volumeOf(host, archive);
  await plugin.activate();
  const { name } = plugin.parse(volname);
  return parseBackupName(name)?.container === "gpvi"
    ? openChain(tools, plugin, name, signal)
    : tools.openArchive(plugin.path(volname));
}

function configOf(configs: ReadonlyMap<string, Uint8Array>): string {
  const conf = configs.get("qemu-server.conf");
  if (conf === undefined)
    throw new AppError("request.invalid", "the backup archive holds no VM configuration", { pveStatus: 500 });
  return Buffer.from(conf).toString("utf8");
}

async function makeVolumes(
  host: VmHost,
  args: RestoreArgs,
  reader: ArchiveReader,
  conf: string,
  state: RestoreState,
  log: (line: string) => void,
): Promise<void> {
  for (const { key, device, storage: from, format } of readBackupMap(conf)) {
    if (state.volumes[device] !== undefined) continue;
    const found = reader.header.devices.find(({ name }) => name === device);
    if (found === undefined)
      throw new AppError("request.invalid", `the backup archive has no data for disk '${key}'`, {
        pveStatus: 500,
      });
    const storage = args.storage ?? from;
    const plugin = host.storages.plugin(storage);
    await plugin.activate();
    const volname = await plugin.alloc({ vmid: args.vmid, format: imageFormat(format), size: found.size });
    state.volumes[key] = formatVolumeId({ storage, volname });
    log(`new volume '${state.volumes[key]}' for ${key}`);
  }
}

/** Filled when the VM starts; their names say whose they are. */
async function makeCloudinitDiscs(
  host: VmHost,
  args: RestoreArgs,
  conf: string,
  state: RestoreState,
  log: (line: string) => void,
): Promise<void> {
  const { values } = parseVmConfig(conf, { vmid: args.vmid, digestOf: () => "" });
  for (const { key, drive } of listDrives(values)) {
    const volume = parseVolumeId(drive.file);
    if (!isCloudinitVolume(drive.file) || volume === undefined || state.discs?.[key] !== undefined) continue;
    const extension = /\.(raw|qcow2|vmdk)$/.exec(volume.volname)?.[1];
    const format = extension === "qcow2" || extension === "vmdk" ? extension : "raw";
    const volid = await allocateCloudinit(host, args.vmid, args.storage ?? volume.storage, format, { log });
    state.discs = { ...state.discs, [key]: volid };
    log(`new volume '${volid}' for ${key}`);
  }
}

/** All disks are open at once: their clusters come mixed. */
async function fillVolumes(
  host: VmHost,
  tools: BackupTools,
  reader: ArchiveReader,
  volumes: Readonly<Record<string, string>>,
  work: {
    readonly signal: AbortSignal;
    readonly progress: (fraction: number) => void;
    /** Drive key -> device of the archive. */
    readonly devices: ReadonlyMap<string, string>;
  },
): Promise<void> {
  const total = reader.header.devices.reduce((sum, { size }) => sum + size, 0);
  const open = async (rest: readonly [string, string][], disks: Map<string, DiskAccess>): Promise<void> => {
    const [next, ...others] = rest;
    if (next === undefined) {
      let done = 0;
      for await (const { device, offset, data, isZero, overwrites } of reader.clusters()) {
        work.signal.throwIfAborted();
        const disk = disks.get(device.name);
        // New volumes read as zeroes already.
        if (!isZero) await disk?.write(offset, data);
        else if (overwrites === true) await disk?.writeZeroes(offset, data.length);
        done += data.length;
        work.progress(total === 0 ? 1 : done / total);
      }
      for (const disk of disks.values()) await disk.flush();
      return;
    }
    const [key, volid] = next;
    const { plugin, volname } = volumeOf(host, volid);
    const { filename, format } = plugin.block(volname);
    await tools.withImage({ path: filename, format, access: "rw" }, (disk) =>
      open(others, new Map([...disks, [work.devices.get(key) ?? "", disk]])),
    );
  };
  await open(Object.entries(volumes), new Map());
}

function imageFormat(format: string): ImageFormat {
  return format === "qcow2" || format === "vmdk" ? format : "raw";
}
