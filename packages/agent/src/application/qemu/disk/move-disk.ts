// Moving a disk to another storage or format: a copy while the VM is stopped, a mirror while it runs. The old volume
// goes only after the configuration names the new one.
import { parameterError, refused } from "@gpve/domain/request/failures.ts";
import type { QemuProcess, QemuProcesses } from "@gpve/domain/vm/qemu-processes.ts";
import { contentOf } from "@gpve/domain/storage/definition.ts";
import { formatVolumeId, requireVolumeId } from "@gpve/domain/storage/volume-id.ts";
import { nodeName } from "@gpve/domain/vm/argv/block/block-node.ts";
import {
  addUnused,
  isCdrom,
  isCloudinitVolume,
  isInQemu,
  isTpmState,
  listDrives,
  printDrive,
  requireDrive,
} from "@gpve/domain/vm/config/drive.ts";
import { isDriveKey } from "@gpve/domain/vm/config/keys.ts";
import { checkLock, isTemplate } from "@gpve/domain/guest/guest-lock.ts";
import { keepNumberText } from "@gpve/domain/vm/config/number-text.ts";
import type { Drive } from "@gpve/domain/vm/config/property-types.ts";
import { ignore } from "@gpve/kit/background.ts";
import type { OperationDefinition, Step, StepContext } from "@gpve/kit/operation/definition.ts";
import { allocateCloudinit, writeCloudinit } from "../config/cloudinit-drive.ts";
import { freeVolume, listVolumes } from "../config/free-volumes.ts";
import { changeMedia } from "../live/live-drives.ts";
import { withPrefix } from "../pve-words.ts";
import { convertDisks } from "./make-template.ts";
import type { ReassignArgs } from "./check-reassign.ts";
import { reassignSteps } from "./reassign-disk.ts";
import { bandwidth } from "./copy-limits.ts";
import { requireUnmodified } from "./unmodified.ts";
import {
  dropMirror,
  finishMirror,
  isOnCopy,
  mirrorDisk,
  mirrorJob,
  settleCopy,
  type MirrorJob,
} from "./mirror-disk.ts";
import { hasJob, hasNode } from "./qemu-copy.ts";
import { runningVm } from "../running-vm.ts";
import { fileOf, volumeOf, type GuestStorages } from "../../guest/guest-storages.ts";
import type { VmConfigs } from "../config/vm-configs.ts";
import type { UpdateConfigPorts } from "../config/update-config.ts";

export interface CheckMovePorts {
  readonly configs: VmConfigs;
  readonly processes: QemuProcesses;
  readonly storages: GuestStorages;
}

export interface DiskMoveArgs {
  readonly vmid: number;
  readonly disk: string;
  readonly storage: string;
  readonly format?: "raw" | "qcow2" | "vmdk";
  /** The old volume is destroyed; otherwise it stays as unused. */
  readonly remove: boolean;
  readonly digest?: string;
  /** KiB/s */
  readonly bwlimit?: number;
}

interface MoveState {
  /** Volumes that were there before, and the one to move. */
  existing?: readonly string[];
  source?: string;
  /** The copy, once its name is known. */
  target?: string;
}

type Context = StepContext<DiskMoveArgs, MoveState>;

/** What PVE finds before it forks. */
export function checkMovable(host: CheckMovePorts, args: DiskMoveArgs): Drive {
  const config = host.configs.get(args.vmid);
  checkLock(config);
  requireUnmodified(config, args.digest);
  const text = config.values[args.disk];
  if (text === undefined) throw refused(`disk '${args.disk}' does not exist`);
  const drive = readDisk(args.disk, text);
  if (isCdrom(drive, true)) throw refused("you can't move a cdrom");
  const volume = requireVolumeId(drive.file);
  const { format } = volumeOf(host, drive.file).plugin.block(volume.volname);
  if (volume.storage === args.storage && (args.format === undefined || args.format === format))
    throw refused("you can't move to the same storage with same format");
  host.storages.plugin(args.storage);
  if (!contentOf(host.storages.definition(args.storage)).has("images"))
    throw parameterError({ storage: `storage '${args.storage}' does not support vm images` });
  if (args.disk === "tpmstate0" && runningVm(host, args.vmid) !== undefined)
    throw refused("cannot move TPM state while VM is running");
  if (args.remove && isInSnapshot(host, args.vmid, drive.file))
    throw refused("you can't move a disk with snapshots and delete the source");
  return drive;
}

/** An unused disk is a volume and nothing else. */
function readDisk(key: string, text: string): Drive {
  return isDriveKey(key) ? requireDrive(key, text) : { file: text };
}

function printDisk(key: string, drive: Drive): string {
  return isDriveKey(key) ? printDrive(key, drive) : drive.file;
}

/** The guest, where it has the disk. */
function userOf(host: UpdateConfigPorts, { vmid, disk }: DiskMoveArgs): QemuProcess | undefined {
  const isOpen = isDriveKey(disk) && isInQemu(host.configs.get(vmid).values, disk);
  return isOpen ? runningVm(host, vmid) : undefined;
}

/** To another storage or format, or to another VM. */
export function moveDiskOperation(
  host: UpdateConfigPorts,
): OperationDefinition<DiskMoveArgs | ReassignArgs, Record<string, unknown>> {
  const toVm = reassignSteps(host) as unknown as readonly Step<DiskMoveArgs | ReassignArgs>[];
  const toStorage = moveSteps(host) as unknown as readonly Step<DiskMoveArgs | ReassignArgs>[];
  return {
    type: "qmmove",
    // Once the guest uses the copy there is no way back: go on where it was.
    onCrash: "resume",
    plan: (args) => ("targetVmid" in args ? toVm : toStorage),
  };
}

function moveSteps(host: UpdateConfigPorts): readonly Step<DiskMoveArgs, MoveState>[] {
  return [
    {
      name: "copy",
      weight: 8,
      run: (ctx) => withPrefix("storage migration failed: ", () => copyDisk(host, ctx)),
      undo: (ctx) => takeBack(host, ctx),
    },
    {
      name: "configuration",
      run: async ({ args, state, log, signal }) => {
        await switchOver(host, args, state);
        if (isTemplate(host.configs.get(args.vmid)))
          await convertDisks(host, args.vmid, args.disk, { log, signal });
      },
    },
    {
      name: "old volume",
      run: async ({ args, state, log }) => {
        const { source } = state;
        if (source === undefined || isAttached(host, args.vmid, source)) return;
        for (const path of fileOf(host, source))
          await runningVm(host, args.vmid)
            ?.forbidFile(path)
            .catch((err: unknown) => ignore(err, "the guest has let go of it already"));
        if (isUsed(host, args.vmid, source)) return;
        if (args.remove || isCloudinitVolume(source)) await freeVolume(host, source, log);
      },
    },
  ];
}

async function copyDisk(host: UpdateConfigPorts, ctx: Context): Promise<void> {
  const { args, state, signal, log, progress, checkpoint } = ctx;
  if (state.source === undefined) {
    state.source = checkMovable(host, args).file;
    state.existing = await listVolumes(host, args.vmid, [args.storage]);
    await checkpoint();
  }
  if (await isDone(host, ctx)) return;
  await dropLeftovers(host, ctx);
  const source = volumeOf(host, state.source);
  await source.plugin.activate();
  const plugin = host.storages.plugin(args.storage);
  await plugin.activate();
  const { format: own } = source.plugin.block(source.volname);
  const format = isTpmState(args.disk) ? "raw" : plugin.format(args.format ?? own);
  const process = userOf(host, args);
  log(`moving '${state.source}' to storage '${args.storage}'`);
  if (isCloudinitVolume(state.source)) return makeCloudinitThere(host, ctx, format);
  if (process === undefined) {
    const volname = await plugin.importFrom(
      await source.plugin.attach(source.volname),
      { vmid: args.vmid, format },
      { signal, log, progress, ...bandwidth(args.bwlimit) },
    );
    state.target = formatVolumeId({ storage: args.storage, volname });
    await checkpoint();
    return;
  }
  const { size } = await source.plugin.info(source.volname);
  const volname = await plugin.alloc({ vmid: args.vmid, format, size }, { signal, log });
  state.target = formatVolumeId({ storage: args.storage, volname });
  await checkpoint();
  await mirrorDisk(process, await jobOf(host, process, args, state.target), {
    signal,
    onProgress: (each) => {
      if (each["total-progress"] > 0) progress(each["current-progress"] / each["total-progress"]);
    },
  });
}

/** A cloud-init drive is not copied but made again; a running guest gets the new disc. */
async function makeCloudinitThere(
  host: UpdateConfigPorts,
  ctx: Context,
  format: NonNullable<DiskMoveArgs["format"]>,
): Promise<void> {
  const { args, state, log, checkpoint } = ctx;
  const { vmid, disk } = args;
  state.target = await allocateCloudinit(host, vmid, args.storage, format, ctx);
  await checkpoint();
  const { values } = host.configs.get(vmid);
  const { format: _format, ...drive } = requireDrive(disk, values[disk] ?? "");
  const text = printDrive(disk, { ...drive, file: state.target });
  await writeCloudinit(host, vmid, { ...values, [disk]: text }, log);
  const process = runningVm(host, vmid);
  if (process !== undefined) await changeMedia({ host, vmid, process, log }, values, disk, text);
}

/** A mirror that was on its way, or through, when we were cut off. */
async function isDone(host: UpdateConfigPorts, { args, state, signal }: Context): Promise<boolean> {
  const process = userOf(host, args);
  // Without a running guest only a finished copy is ever noted; a mirror whose guest ended is not to be believed.
  if (process === undefined || state.target === undefined) return false;
  if (isCloudinitVolume(state.target)) return isInserted(host, process, args, state);
  const job = await jobOf(host, process, args, state.target);
  if (await hasJob(process, job.id)) await finishMirror(process, job, { signal });
  return isOnCopy(process, job);
}

/** The new cloud-init disc is in the guest's drive. */
async function isInserted(
  host: UpdateConfigPorts,
  process: QemuProcess,
  { disk }: DiskMoveArgs,
  { source = "", target = "" }: MoveState,
): Promise<boolean> {
  const has = async (volid: string): Promise<boolean> =>
    hasNode(process, nodeName("f", disk, volid, host.ids.sha256Hex));
  return (await has(target)) && !(await has(source));
}

async function takeBack(host: UpdateConfigPorts, ctx: Context): Promise<void> {
  const { args, state } = ctx;
  if (state.existing === undefined) return;
  const text = host.configs.get(args.vmid).values[args.disk];
  const isNamed = text !== undefined && readDisk(args.disk, text).file !== state.source;
  // What the guest uses now is kept, and the configuration says so.
  if (!isNamed && (await dropLeftovers(host, ctx)) === "dropped") return;
  await switchOver(host, args, state);
  await keepSource(host, args, state);
}

/** The old volume was to go, but that is as far as it came: it is not to be lost sight of. */
async function keepSource(
  host: UpdateConfigPorts,
  { vmid }: DiskMoveArgs,
  { source = "" }: MoveState,
): Promise<void> {
  if (isUsed(host, vmid, source)) return;
  const { storage } = volumeOf(host, source);
  if (!(await listVolumes(host, vmid, [storage])).includes(source)) return;
  await host.configs.change(vmid, (config) => ({ ...config, values: addUnused(config.values, source) }));
}

async function dropLeftovers(
  host: UpdateConfigPorts,
  { args, state, log }: Context,
): Promise<"dropped" | "on copy"> {
  const before = new Set(state.existing);
  if ((await takeFromQemu(host, args, state)) === "on copy") return "on copy";
  for (const volid of await listVolumes(host, args.vmid, [args.storage]))
    if (!before.has(volid) && !isUsed(host, args.vmid, volid)) await freeVolume(host, volid, log);
  delete state.target;
  return "dropped";
}

/** What a running QEMU has of the copy goes, unless its guest uses it. */
async function takeFromQemu(
  host: UpdateConfigPorts,
  args: DiskMoveArgs,
  state: MoveState,
): Promise<"dropped" | "on copy"> {
  const process = userOf(host, args);
  const { target } = state;
  if (process === undefined || target === undefined) return "dropped";
  if (isCloudinitVolume(target)) {
    if (await isInserted(host, process, args, state)) return "on copy";
    for (const path of fileOf(host, target))
      await process.forbidFile(path).catch((err: unknown) => ignore(err, "it was never allowed"));
    return "dropped";
  }
  const job = await jobOf(host, process, args, target);
  const outcome = await dropMirror(process, job);
  if (outcome === "on copy")
    await settleCopy(process, job).catch((err: unknown) => ignore(err, "the guest goes on as it is"));
  return outcome;
}

async function switchOver(host: UpdateConfigPorts, args: DiskMoveArgs, state: MoveState): Promise<void> {
  const { source, target } = state;
  if (source === undefined || target === undefined) return;
  await host.configs.change(args.vmid, (config) => {
    const text = config.values[args.disk];
    if (text === undefined) return config;
    const { format: _format, ...drive } = readDisk(args.disk, text);
    // It was switched before, and may have become an image that clones build upon.
    if (drive.file !== source) return config;
    const moved = keepNumberText(text, printDisk(args.disk, { ...drive, file: target }));
    const values = { ...config.values, [args.disk]: moved };
    return { ...config, values: args.remove ? values : addUnused(values, source) };
  });
}

function jobOf(
  host: UpdateConfigPorts,
  process: QemuProcess,
  args: DiskMoveArgs,
  volid: string,
): Promise<MirrorJob> {
  const { vmid, disk } = args;
  const work = { host, vmid, process, log: () => undefined };
  const what = { id: jobId(args), key: disk, volid, ...bandwidth(args.bwlimit) };
  return mirrorJob(work, host.configs.get(vmid).values, what);
}

function jobId({ vmid, disk }: DiskMoveArgs): string {
  return `move-${vmid}-${disk}`;
}

function isUsed(host: UpdateConfigPorts, vmid: number, volid: string): boolean {
  const { values } = host.configs.get(vmid);
  const unused = Object.entries(values).some(([key, text]) => key.startsWith("unused") && text === volid);
  return unused || isAttached(host, vmid, volid) || isInSnapshot(host, vmid, volid);
}

function isAttached(host: UpdateConfigPorts, vmid: number, volid: string): boolean {
  return listDrives(host.configs.get(vmid).values).some(({ drive }) => drive.file === volid);
}

function isInSnapshot(host: CheckMovePorts, vmid: number, volid: string): boolean {
  return Object.values(host.configs.get(vmid).snapshots).some((values) =>
    listDrives(values).some(({ drive }) => drive.file === volid),
  );
}
