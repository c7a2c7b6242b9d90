// Moving a disk to another storage or format: a copy while the VM is stopped, a mirror while it runs. The old volume
// goes only after the configuration names the new one.
import { AppError } from "@gpve/contracts/errors.ts";
import type { GuestProcess } from "@gpve/domain/guest/guest-processes.ts";
import { parameterError } from "@gpve/domain/schema/validate-params.ts";
import { contentOf } from "@gpve/domain/storage/definition.ts";
import { formatVolumeId, requireVolumeId } from "@gpve/domain/storage/volume-id.ts";
import { nodeName } from "@gpve/domain/vm/argv/block-node.ts";
import { iothreadId } from "@gpve/domain/vm/argv/drive-device.ts";
import { atLeast, parseVersion } from "@gpve/domain/vm/argv/versions.ts";
import {
  addUnused,
  isCdrom,
  isCloudinitVolume,
  listDrives,
  printDrive,
  requireDrive,
} from "@gpve/domain/vm/drive.ts";
import { isDriveKey } from "@gpve/domain/vm/keys.ts";
import { checkLock, isTemplate } from "@gpve/domain/vm/lock.ts";
import type { Drive } from "@gpve/domain/vm/property-types.ts";
import { ignore } from "@gpve/kit/background.ts";
import type { OperationDefinition, Step, StepContext } from "@gpve/kit/operation/definition.ts";
import { allocateCloudinit, writeCloudinit } from "../cloudinit-drive.ts";
import { freeVolume, listVolumes } from "../free-volumes.ts";
import { changeMedia } from "../live/live-drives.ts";
import { withPrefix } from "../pve-words.ts";
import { runningVm, volumeOf, type VmHost } from "../vm-host.ts";
import { convertDisks } from "./make-template.ts";
import { reassignSteps, type ReassignArgs } from "./reassign-disk.ts";
import { bandwidth } from "./copy-limits.ts";
import { requireUnmodified } from "./unmodified.ts";
import { dropCopy, finishMirror, hasJob, hasNode, mirrorDisk, type CopyTarget } from "./qemu-copy.ts";

export interface MoveArgs {
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

type Context = StepContext<MoveArgs, MoveState>;

/** What PVE finds before it forks. */
export function checkMovable(host: VmHost, args: MoveArgs): Drive {
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
  checkReplaceable(host, args, drive, config.values["scsihw"]);
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
function userOf(host: VmHost, { vmid, disk }: MoveArgs): GuestProcess | undefined {
  return isDriveKey(disk) ? runningVm(host, vmid) : undefined;
}

/** Before 9.0, a QEMU that puts one image of a disk with an I/O thread in the place of another waits for itself. */
function checkReplaceable(host: VmHost, args: MoveArgs, drive: Drive, scsihw: string | undefined): void {
  if (runningVm(host, args.vmid) === undefined) return;
  if (iothreadId(scsihw, args.disk, drive) === undefined) return;
  const { qemuVersion } = host.facts();
  const version = parseVersion(qemuVersion);
  if (version !== undefined && atLeast(version, 9, 0)) return;
  throw refused(
    `disk '${args.disk}' has an I/O thread, and QEMU ${qemuVersion} on this node cannot move such a disk while its VM runs: stop VM ${args.vmid} first, or start it without 'iothread'`,
  );
}

/** To another storage or format, or to another VM. */
export function moveDiskOperation(
  host: VmHost,
): OperationDefinition<MoveArgs | ReassignArgs, Record<string, unknown>> {
  const toVm = reassignSteps(host) as unknown as readonly Step<MoveArgs | ReassignArgs>[];
  const toStorage = moveSteps(host) as unknown as readonly Step<MoveArgs | ReassignArgs>[];
  return {
    type: "qmmove",
    // Once the guest uses the copy there is no way back: go on where it was.
    onCrash: "resume",
    plan: (args) => ("targetVmid" in args ? toVm : toStorage),
  };
}

function moveSteps(host: VmHost): readonly Step<MoveArgs, MoveState>[] {
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
        if (source === undefined || isUsed(host, args.vmid, source)) return;
        const { plugin, volname } = volumeOf(host, source);
        await runningVm(host, args.vmid)
          ?.forbidFile(plugin.block(volname).filename)
          .catch((err: unknown) => ignore(err, "the guest has let go of it already"));
        if (args.remove || isCloudinitVolume(source)) await freeVolume(host, source, log);
      },
    },
  ];
}

async function copyDisk(host: VmHost, ctx: Context): Promise<void> {
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
  const { filename, format: own } = source.plugin.block(source.volname);
  const format = args.format ?? own;
  const process = userOf(host, args);
  log(`moving '${state.source}' to storage '${args.storage}'`);
  if (isCloudinitVolume(state.source)) return makeCloudinitThere(host, ctx, format);
  if (process === undefined) {
    const volname = await plugin.importFrom(
      { path: filename, format: own, trusted: true },
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
  const job = {
    ...mirrorOf(host, args, state.source),
    key: args.disk,
    target: targetOf(host, args.disk, state.target),
    ...bandwidth(args.bwlimit),
  };
  await mirrorDisk(process, job, {
    signal,
    onProgress: (each) => {
      if (each["total-progress"] > 0) progress(each["current-progress"] / each["total-progress"]);
    },
  });
}

/** A cloud-init drive is not copied but made again; a running guest gets the new disc. */
async function makeCloudinitThere(
  host: VmHost,
  ctx: Context,
  format: NonNullable<MoveArgs["format"]>,
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
async function isDone(host: VmHost, { args, state, signal }: Context): Promise<boolean> {
  if (state.target === undefined) return false;
  const process = userOf(host, args);
  // Without a running guest only a finished copy is ever noted; a mirror whose guest ended is not to be believed.
  if (process === undefined) return false;
  if (await hasJob(process, jobId(args)))
    await finishMirror(process, mirrorOf(host, args, state.source ?? ""), { signal });
  return isSwitched(host, args, state);
}

/** The guest writes to the copy. */
async function isSwitched(host: VmHost, args: MoveArgs, state: MoveState): Promise<boolean> {
  const process = userOf(host, args);
  if (process === undefined || state.source === undefined || state.target === undefined) return false;
  const node = (volid: string): string => nodeName("f", args.disk, volid, host.sha256Hex);
  return (await hasNode(process, node(state.target))) && !(await hasNode(process, node(state.source)));
}

async function takeBack(host: VmHost, ctx: Context): Promise<void> {
  const { args, state } = ctx;
  if (state.existing === undefined) return;
  // What the guest uses now is kept, and the configuration says so.
  if (await isSwitched(host, args, state)) return switchOver(host, args, state);
  if (state.target !== undefined && isUsed(host, args.vmid, state.target)) return;
  await dropLeftovers(host, ctx);
}

async function dropLeftovers(host: VmHost, { args, state, log }: Context): Promise<void> {
  const before = new Set(state.existing);
  const process = userOf(host, args);
  if (process !== undefined && state.target !== undefined)
    await dropCopy(process, jobId(args), targetOf(host, args.disk, state.target));
  for (const volid of await listVolumes(host, args.vmid, [args.storage]))
    if (!before.has(volid) && !isUsed(host, args.vmid, volid)) await freeVolume(host, volid, log);
  delete state.target;
}

async function switchOver(host: VmHost, args: MoveArgs, state: MoveState): Promise<void> {
  const { source, target } = state;
  if (source === undefined || target === undefined) return;
  await host.configs.change(args.vmid, (config) => {
    const text = config.values[args.disk];
    if (text === undefined) return config;
    const { format: _format, ...drive } = readDisk(args.disk, text);
    // It was switched before, and may have become an image that clones build upon.
    if (drive.file !== source) return config;
    const values = { ...config.values, [args.disk]: printDisk(args.disk, { ...drive, file: target }) };
    return { ...config, values: args.remove ? values : addUnused(values, source) };
  });
}

function targetOf(host: VmHost, key: string, volid: string): CopyTarget {
  const { plugin, volname } = volumeOf(host, volid);
  return {
    block: plugin.block(volname),
    node: nodeName("f", key, volid, host.sha256Hex),
    fileNode: nodeName("e", key, volid, host.sha256Hex),
  };
}

function mirrorOf(host: VmHost, args: MoveArgs, source: string): { id: string; replaces: string } {
  return { id: jobId(args), replaces: nodeName("f", args.disk, source, host.sha256Hex) };
}

function jobId({ vmid, disk }: MoveArgs): string {
  return `move-${vmid}-${disk}`;
}

function isUsed(host: VmHost, vmid: number, volid: string): boolean {
  const { values } = host.configs.get(vmid);
  const unused = Object.entries(values).some(([key, text]) => key.startsWith("unused") && text === volid);
  return (
    unused || listDrives(values).some(({ drive }) => drive.file === volid) || isInSnapshot(host, vmid, volid)
  );
}

function isInSnapshot(host: VmHost, vmid: number, volid: string): boolean {
  return Object.values(host.configs.get(vmid).snapshots).some((values) =>
    listDrives(values).some(({ drive }) => drive.file === volid),
  );
}

function refused(message: string): AppError {
  return new AppError("request.invalid", message, { pveStatus: 500 });
}
