// Giving a disk of one VM to another: its volume gets a name of the other VM, then both configurations say so.
import { isAppError, messageOf } from "@gpve/contracts/errors.ts";
import { formatVolumeId, parseVolumeId } from "@gpve/domain/storage/volume-id.ts";
import { dropFromBootOrder } from "@gpve/domain/vm/config/boot-order.ts";
import { readConfigUpdate } from "@gpve/domain/vm/change/config-update.ts";
import { printDrive, requireDrive } from "@gpve/domain/vm/config/drive.ts";
import { isDriveKey } from "@gpve/domain/vm/config/keys.ts";
import { keepNumberText } from "@gpve/domain/vm/config/number-text.ts";
import { without } from "@gpve/domain/guest/guest-config.ts";
import type { OperationDefinition, StepContext } from "@gpve/kit/operation/definition.ts";
import { listVolumes } from "../config/free-volumes.ts";
import { updateVmConfig, type UpdateConfigPorts } from "../config/update-config.ts";
import { checkReassignable, type ReassignArgs } from "./check-reassign.ts";
import { runningVm } from "../running-vm.ts";
import { volumeOf } from "../../guest/guest-storages.ts";

interface ReassignState {
  /** The drive as it was. */
  drive?: string;
  source?: string;
  existing?: readonly string[];
}

type Context = StepContext<ReassignArgs, ReassignState>;

export function reassignSteps(
  host: UpdateConfigPorts,
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

async function reassign(host: UpdateConfigPorts, ctx: Context): Promise<void> {
  const { args, state, log, checkpoint } = ctx;
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
    log(
      `reassign disk '${args.disk}' from VM '${args.vmid}' as '${args.targetDisk}' to VM '${args.targetVmid}'`,
    );
    file = formatVolumeId({ storage, volname: await plugin.rename(volname, args.targetVmid) });
  }
  await attach(host, ctx, file);
  await host.configs.change(args.vmid, (config) => {
    if (config.values[args.disk] !== state.drive) return config;
    return { ...config, values: without(dropFromBootOrder(config.values, args.disk), args.disk) };
  });
}

/** A running guest gets the disk at once, where it can. */
async function attach(
  host: UpdateConfigPorts,
  { args, state, signal, log, warn }: Context,
  file: string,
): Promise<void> {
  const { targetVmid, targetDisk } = args;
  if (isNamed(host, targetVmid, file)) return;
  const text = textFor(args, state.drive ?? "", file);
  if (runningVm(host, targetVmid) !== undefined && isDriveKey(targetDisk)) {
    const update = readConfigUpdate({ [targetDisk]: text });
    try {
      await updateVmConfig(host, targetVmid, update, { signal, log });
    } catch (err) {
      // It is the other VM's already, and gets there with its next start.
      if (!isNamed(host, targetVmid, file)) throw err;
      warn(isAppError(err) ? Object.values(err.errors ?? {}).join("; ") : messageOf(err));
    }
    return;
  }
  await host.configs.change(targetVmid, (config) => ({
    ...config,
    values: { ...config.values, [targetDisk]: text },
  }));
}

function textFor({ disk, targetDisk }: ReassignArgs, text: string, file: string): string {
  if (!isDriveKey(targetDisk)) return file;
  const drive = isDriveKey(disk) ? requireDrive(disk, text) : { file };
  return keepNumberText(text, printDrive(targetDisk, { ...drive, file }));
}

/** The volume under its new name, if it has it already: the only one that the target VM did not have before. */
async function renamed(
  host: UpdateConfigPorts,
  args: ReassignArgs,
  state: ReassignState,
): Promise<string | undefined> {
  if (state.source === undefined) return undefined;
  const { storage } = volumeOf(host, state.source);
  const before = new Set(state.existing);
  return (await listVolumes(host, args.targetVmid, [storage])).find((volid) => !before.has(volid));
}

function isNamed(host: UpdateConfigPorts, vmid: number, volid: string): boolean {
  const { values, pending } = host.configs.get(vmid);
  return [...Object.values(values), ...Object.values(pending)].some(
    (text) => text === volid || text.startsWith(`${volid},`),
  );
}
