// A restored VM that starts at once. Each disk begins as an empty image over the archive, which an NBD server of ours
// unpacks and offers meanwhile; QEMU mirrors it to its volume, and the guest goes on there. A restore that fails is
// taken back as a whole: the guest is ended, and what it wrote is lost with it. The archive is still there.
import { AppError } from "@gpve/contracts/errors.ts";
import type {
  ArchiveReader,
  ArchiveServer,
  ArchiveServers,
  NodeFiles,
  OpenDisks,
} from "@gpve/domain/backup/backup-ports.ts";
import type { Microvm } from "@gpve/domain/guest/guest-record.ts";
import { formatVolumeId } from "@gpve/domain/storage/volume-id.ts";
import type { ResolvedVolume } from "@gpve/domain/vm/argv/command-input.ts";
import { printDrive, requireDrive } from "@gpve/domain/vm/config/drive.ts";
import { readBackupMap } from "@gpve/domain/vm/change/restore-config.ts";
import { emptyVmConfig, type VmValues } from "@gpve/domain/vm/config/vm-config.ts";
import { ignore } from "@gpve/kit/background.ts";
import { freeVolume } from "../config/free-volumes.ts";
import { mirrorDisk, mirrorJob } from "../disk/mirror-disk.ts";
import { Pace } from "../../guest/backup/pace.ts";
import type { RestoreArgs, RestoreState, RestoreWork } from "./restore-request.ts";
import { requireRunningVm, runningVm } from "../running-vm.ts";
import { attachedFile, fileOf, volumeOf } from "../../guest/guest-storages.ts";
import type { VmStarter } from "../start/vm-starter.ts";
import type { StartPlanPorts } from "../start/start-plan.ts";

export type LiveRestoreTools = OpenDisks & ArchiveServers & NodeFiles;

export interface LiveRestorePorts extends StartPlanPorts {
  readonly starter: VmStarter;
}

type Below = NonNullable<ResolvedVolume["backing"]>;

/** Read by firmware and TPM before there is a guest that could wait. */
const NEEDED_AT_ONCE = new Set(["efidisk0", "tpmstate0"]);
const LIVE = "a live restore";
const COPY_BYTES = 1024 * 1024;

interface LiveDisk {
  readonly key: string;
  /** Its name in the archive. */
  readonly device: string;
  readonly size: number;
  /** Where it ends up. */
  readonly volid: string;
  /** What is unpacked of it. */
  readonly spool: string;
  /** What the guest writes to until then. */
  readonly overlay?: string;
}

/** Resolves when every disk is on its volume and the archive has proven whole; the VM runs, and is still locked. */
export async function liveRestore(
  host: LiveRestorePorts,
  tools: LiveRestoreTools,
  args: RestoreArgs,
  reader: ArchiveReader,
  restored: { readonly conf: string; readonly values: VmValues; readonly microvm: Microvm | undefined },
  state: RestoreState,
  work: RestoreWork,
): Promise<void> {
  const { vmid } = args;
  const socket = tools.socketPath(`live-${vmid}`);
  const disks = await makeImages(host, reader, restored.conf, vmid, state);
  const pace = new Pace(args.bwlimit ?? 0, host.clock, work.signal);
  const server = await tools.serveArchive({
    reader,
    spool: new Map(await Promise.all(disks.map((disk) => spoolOf(host, disk)))),
    socket,
    isFinal: !/\.gpvi(?:\.zst)?$/.test(args.archive),
    pace: (bytes) => pace.after(bytes),
  });
  try {
    for (const disk of disks)
      if (disk.overlay === undefined) await copyNow(host, tools, server, disk, work.signal);
      // Made anew: one whose clusters are allocated in advance would hide what is below.
      else await tools.createScratch(await attachedFile(host, disk.overlay, LIVE), disk.size);
    const unfinished = { ...emptyVmConfig, values: { ...restored.values, lock: "create" } };
    await host.configs.replace(vmid, unfinished, { microvm: restored.microvm });
    state.isLive = true;
    await work.checkpoint();
    work.log("starting VM for live-restore");
    const drives = Object.fromEntries(disks.flatMap((disk) => overlaid(disk, restored.values)));
    const files = [{ path: socket, access: "rw", owned: true } as const];
    const below = new Map(disks.flatMap((disk) => exported(disk, socket)));
    let broken: unknown;
    server.whole.catch((err: unknown) => (broken = err));
    try {
      await host.starter.start({ vmid, skiplock: true, instead: { drives, files, below } }, work);
      await mirrorAll(host, vmid, disks, restored.values, work);
    } catch (err) {
      // QEMU knows of a damaged archive only that it could not read.
      throw broken ?? err;
    }
    await server.whole;
  } finally {
    await server.close();
  }
  await forbidFiles(host, vmid, [
    socket,
    ...disks.flatMap(({ overlay }) => (overlay === undefined ? [] : [overlay])),
  ]);
  for (const { spool, overlay } of disks) {
    await freeVolume(host, spool, ignoreLine);
    if (overlay !== undefined) await freeVolume(host, overlay, ignoreLine);
  }
}

/** What an undo ends: the guest runs on disks that are about to go. */
export async function endLive(host: LiveRestorePorts, vmid: number): Promise<void> {
  await runningVm(host, vmid)?.kill();
  await host.starter.stopHelpers(vmid);
}

async function spoolOf(host: LiveRestorePorts, { device, spool }: LiveDisk): Promise<[string, string]> {
  return [device, await attachedFile(host, spool, LIVE)];
}

/** All of them are the VM's volumes: an undo finds them by that. */
async function makeImages(
  host: LiveRestorePorts,
  reader: ArchiveReader,
  conf: string,
  vmid: number,
  state: RestoreState,
): Promise<LiveDisk[]> {
  const disks: LiveDisk[] = [];
  for (const { key, device } of readBackupMap(conf)) {
    const volid = state.volumes[key];
    const size = reader.header.devices.find(({ name }) => name === device)?.size;
    if (volid === undefined || size === undefined) continue;
    const { plugin, storage } = volumeOf(host, volid);
    if (plugin.format("qcow2") !== "qcow2")
      throw new AppError(
        "feature.unsupported",
        `a live restore needs a storage that holds qcow2 images, and '${storage}' does not: restore without live-restore`,
        { pveStatus: 500 },
      );
    const make = async (format: "raw" | "qcow2"): Promise<string> =>
      formatVolumeId({ storage, volname: await plugin.alloc({ vmid, format, size }) });
    const spool = await make("raw");
    const overlay = NEEDED_AT_ONCE.has(key) ? {} : { overlay: await make("qcow2") };
    disks.push({ key, device, size, volid, spool, ...overlay });
  }
  return disks;
}

async function copyNow(
  host: LiveRestorePorts,
  tools: OpenDisks,
  server: ArchiveServer,
  { device, size, volid }: LiveDisk,
  signal: AbortSignal,
): Promise<void> {
  const { plugin, volname } = volumeOf(host, volid);
  const { node, format } = await plugin.attach(volname);
  await tools.withImage({ node, format, access: "rw" }, async (disk) => {
    for (let offset = 0; offset < size; offset += COPY_BYTES) {
      signal.throwIfAborted();
      await disk.write(offset, await server.read(device, offset, Math.min(COPY_BYTES, size - offset)));
    }
    await disk.flush();
  });
}

function overlaid({ key, overlay }: LiveDisk, values: VmValues): [string, string][] {
  const text = values[key];
  if (overlay === undefined || text === undefined) return [];
  return [[key, printDrive(key, { ...requireDrive(key, text), file: overlay })]];
}

/** QEMU is told what an overlay reads as where nothing was written to it: its header names no other file. */
function exported({ overlay, device }: LiveDisk, socket: string): [string, Below][] {
  if (overlay === undefined) return [];
  const server = { type: "unix", path: socket };
  return [[overlay, [{ format: "raw", node: { driver: "nbd", server, export: device } }]]];
}

async function mirrorAll(
  host: LiveRestorePorts,
  vmid: number,
  disks: readonly LiveDisk[],
  values: VmValues,
  work: RestoreWork,
): Promise<void> {
  const moving = disks.filter(({ overlay }) => overlay !== undefined);
  const process = requireRunningVm(host, vmid);
  const live = { host, vmid, process, log: work.log };
  for (const [index, { key, volid }] of moving.entries()) {
    work.log(`restore-${key}: copying what the guest has not read yet`);
    await mirrorDisk(process, await mirrorJob(live, values, { id: `restore-${key}`, key, volid }), {
      signal: work.signal,
      onProgress: (job) => {
        const total = job["total-progress"];
        if (total > 0) work.progress((index + job["current-progress"] / total) / moving.length);
      },
    });
    work.log(`restore-${key}: the guest has all of its disk`);
  }
}

async function forbidFiles(host: LiveRestorePorts, vmid: number, paths: readonly string[]): Promise<void> {
  const process = runningVm(host, vmid);
  for (const path of paths.flatMap((each) => (each.startsWith("/") ? [each] : fileOf(host, each))))
    await process?.forbidFile(path).catch((err: unknown) => ignore(err, "the guest has ended"));
}

function ignoreLine(): void {
  // Images of our own are no news.
}
