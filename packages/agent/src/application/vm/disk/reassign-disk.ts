// Giving a disk of one VM to another: its volume gets a name of the other VM, then both configurations say so.
import { AppError } from "@gpve/contracts/errors.ts";
import { formatVolumeId, parseVolumeId } from "@gpve/domain/storage/volume-id.ts";
import { checkDigest } from "@gpve/domain/vm/config-update.ts";
import { isCdrom, listDrives, printDrive, requireDrive } from "@gpve/domain/vm/drive.ts";
import { isDriveKey } from "@gpve/domain/vm/keys.ts";
import { checkLock } from "@gpve/domain/vm/lock.ts";
import { without } from "@gpve/domain/vm/vm-config.ts";
import type { OperationDefinition, StepContext } from "@gpve/kit/operation/definition.ts";
import { listVolumes } from "../free-volumes.ts";
import { runningVm, volumeOf, type VmHost } from "../vm-host.ts";

export interface ReassignArgs {
  readonly vmid: number;
  readonly disk: string;
  readonly targetVmid: number;
  readonly targetDisk: string;
  readonly digest?: string;
}

interface ReassignState {
  /** The drive as it was. */
  drive?: string;
  source?: string;
  existing?: readonly string[];
}

type Context = StepContext<ReassignArgs, ReassignState>;

export function checkReassignable(host: VmHost, args: ReassignArgs): { file: string; text: string } {
  const config = host.configs.get(args.vmid);
  const target = host.configs.get(args.targetVmid);
  if (args.vmid === args.targetVmid)
    throw refused(
      "Moving a disk to the same VM is not possible. Did you mean to move the disk to a different storage?",
    );
  checkLock(config);
  checkLock(target);
  checkDigest(config, args.digest);
  const text = config.values[args.disk];
  if (text === undefined) throw refused(`Disk '${args.disk}' for VM '${args.vmid}' does not exist`);
  const file = isDriveKey(args.disk) ? requireDrive(args.disk, text).file : text;
  if (isDriveKey(args.disk) && isCdrom(requireDrive(args.disk, text)))
    throw refused("you can't move a cdrom");
  if (runningVm(host, args.vmid) !== undefined && isDriveKey(args.disk))
    throw refused("Cannot move disk to another VM while the source VM is running - detach first");
  if (target.values[args.targetDisk] !== undefined)
    throw refused(`Target disk key '${args.targetDisk}' is already in use for VM '${args.targetVmid}'!`);
  const inSnapshot = Object.values(config.snapshots).some((values) =>
    listDrives(values).some(({ drive }) => drive.file === file),
  );
  if (inSnapshot) throw refused("Can't move disk used by a snapshot to another VM");
  const { plugin, volname } = volumeOf(host, file);
  if (!plugin.has("rename", volname))
    throw refused("Storage does not support moving of this disk to another VM");
  return { file, text };
}

export function reassignSteps(
  host: VmHost,
): NonNullable<OperationDefinition<ReassignArgs, ReassignState>["steps"]> {
  return [
    {
      name: "reassign",
      run: (ctx) => reassign(host, ctx),
      undo: async ({ args, state }) => {
        const given = await renamed(host, args, state);
        if (given === undefined || state.source === undefined || isNamed(host, args.targetVmid, given))
          return;
        const { plugin, volname } = volumeOf(host, given);
        const original = parseVolumeId(state.source)?.volname ?? "";
        await plugin.rename(volname, args.vmid, original.slice(original.lastIndexOf("/") + 1));
      },
    },
  ];
}

async function reassign(host: VmHost, { args, state, log, checkpoint }: Context): Promise<void> {
  if (state.source === undefined) {
    const { file, text } = checkReassignable(host, args);
    state.source = file;
    state.drive = text;
    state.existing = await listVolumes(host, args.targetVmid, [volumeOf(host, file).storage]);
    await checkpoint();
  }
  const { plugin, volname, storage } = volumeOf(host, state.source);
  let file = await renamed(host, args, state);
  if (file === undefined) {
    log(`moving disk '${args.disk}' from VM '${args.vmid}' to '${args.targetVmid}'`);
    file = formatVolumeId({ storage, volname: await plugin.rename(volname, args.targetVmid) });
  }
  const given = file;
  await host.configs.change(args.targetVmid, (config) => ({
    ...config,
    values: { ...config.values, [args.targetDisk]: textFor(args, state.drive ?? "", given) },
  }));
  await host.configs.change(args.vmid, (config) =>
    config.values[args.disk] === state.drive
      ? { ...config, values: without(config.values, args.disk) }
      : config,
  );
}

function textFor({ disk, targetDisk }: ReassignArgs, text: string, file: string): string {
  if (!isDriveKey(targetDisk)) return file;
  const drive = isDriveKey(disk) ? requireDrive(disk, text) : { file };
  return printDrive(targetDisk, { ...drive, file });
}

/** The volume under its new name, if it has it already: the only one that the target VM did not have before. */
async function renamed(host: VmHost, args: ReassignArgs, state: ReassignState): Promise<string | undefined> {
  if (state.source === undefined) return undefined;
  const { storage } = volumeOf(host, state.source);
  const before = new Set(state.existing);
  return (await listVolumes(host, args.targetVmid, [storage])).find((volid) => !before.has(volid));
}

function isNamed(host: VmHost, vmid: number, volid: string): boolean {
  const { values } = host.configs.get(vmid);
  return Object.values(values).some((text) => text === volid || text.startsWith(`${volid},`));
}

function refused(message: string): AppError {
  return new AppError("request.invalid", message, { pveStatus: 500 });
}
