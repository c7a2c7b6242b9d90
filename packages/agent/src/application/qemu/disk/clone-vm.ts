// Cloning a VM: its id is taken first, then its disks are copied or built upon, then it is there.
import { alreadyThere, refused } from "@gpve/domain/request/failures.ts";
import { given } from "@gpve/contracts/given.ts";
import { AppError } from "@gpve/contracts/errors.ts";
import type { MoveName, MoveServers } from "@gpve/domain/guest/move-servers.ts";
import { formatVolumeId, parseVolumeId } from "@gpve/domain/storage/volume-id.ts";
import {
  isCdrom,
  isCloudinitVolume,
  isInQemu,
  isTpmState,
  listDrives,
  printDrive,
} from "@gpve/domain/vm/config/drive.ts";
import { CLOUDINIT_DRIVE_BYTES } from "@gpve/domain/vm/cloudinit/cloudinit-drive.ts";
import { cloneValues } from "@gpve/domain/vm/change/new-vm.ts";
import { keepNumberText } from "@gpve/domain/vm/config/number-text.ts";
import type { Drive } from "@gpve/domain/vm/config/property-types.ts";
import type { JobWait } from "@gpve/domain/vm/qmp/qmp-waits.ts";
import { requireSnapshot } from "@gpve/domain/guest/snapshot/snapshot.ts";
import { emptyVmConfig, type VmConfig, type VmValues } from "@gpve/domain/vm/config/vm-config.ts";
import { printVmProperty } from "@gpve/domain/vm/config/vm-properties.ts";
import type { OperationDefinition, StepContext } from "@gpve/kit/operation/definition.ts";
import { allocateCloudinit, type CloudinitDrivePorts } from "../config/cloudinit-drive.ts";
import { freeVolume, listVolumes } from "../config/free-volumes.ts";
import { withFrozenFilesystems, type UseGuestAgentPorts } from "../agent/use-guest-agent.ts";
import { withPrefix } from "../pve-words.ts";
import { bandwidth } from "./copy-limits.ts";
import { copyAtOneMoment, dropCopies, type DiskCopy } from "./qemu-copy.ts";
import { untilAnswered } from "../migrate/whose-guest.ts";
import { runningVm } from "../running-vm.ts";
import { fileOf, volumeOf, type GuestStorages } from "../../guest/guest-storages.ts";
import type { QemuProcesses } from "@gpve/domain/vm/qemu-processes.ts";
import type { Ids } from "@gpve/domain/guest/ids.ts";

export interface CheckClonePorts {
  readonly processes: QemuProcesses;
  readonly storages: GuestStorages;
}

export interface CloneVmPorts extends CloudinitDrivePorts, UseGuestAgentPorts {
  readonly ids: Ids;
  readonly moves: { readonly servers: MoveServers };
}

export interface CloneArgs {
  /** The original. */
  readonly vmid: number;
  readonly newid: number;
  readonly full: boolean;
  readonly snapname?: string;
  readonly name?: string;
  readonly description?: string;
  readonly storage?: string;
  readonly pool?: string;
  /** The request that asked for it. */
  readonly madeBy?: string;
  readonly format?: "raw" | "qcow2" | "vmdk";
  /** The node that it is for; a server has noted that under `madeBy`. */
  readonly target?: string;
  /** KiB/s by the storage that is read. */
  readonly limits?: Readonly<Record<string, number>>;
}

interface CloneState {
  existing?: readonly string[];
  drives: Record<string, string>;
  /** The other node has it: what is here of it is not ours any more. */
  handedOver?: boolean;
}

type Context = StepContext<CloneArgs, CloneState>;

/** What PVE finds of the drives before it forks. */
export function checkCloneable(host: CheckClonePorts, args: CloneArgs, config: VmConfig): void {
  const { full, snapname, vmid } = args;
  const isRunning = runningVm(host, vmid) !== undefined;
  for (const { key, drive } of listDrives(sourceValues(config, args))) {
    if (full && isRunning && snapname === undefined && key === "tpmstate0")
      throw refused("cannot clone TPM state while VM is running");
    if (isCdrom(drive, true)) continue;
    const isCopied = isFullCopy(args, key, drive);
    if (canCopy(host, drive, isCopied ? "copy" : "clone", snapname)) continue;
    const what = `${snapname === undefined ? "" : " a snapshot of"} '${drive.file}' (${key})`;
    throw refused(`${isCopied ? "Full" : "Linked"} clone feature is not supported for${what}`);
  }
}

/** What a linked clone cannot build upon is copied in any case. */
function isFullCopy({ full }: CloneArgs, key: string, drive: Drive): boolean {
  return full || isCloudinitVolume(drive.file) || key === "tpmstate0";
}

/** Storages on which the clone's disks will lie. */
export function cloneStorages(
  config: VmConfig,
  args: Pick<CloneArgs, "snapname"> & { readonly storage?: string | undefined },
): string[] {
  const found = listDrives(sourceValues(config, args)).flatMap(({ drive }) => {
    const own = isCdrom(drive, true) ? undefined : parseVolumeId(drive.file)?.storage;
    return own === undefined ? [] : [args.storage ?? own];
  });
  return [...new Set(found)];
}

export function cloneVmOperation(host: CloneVmPorts): OperationDefinition<CloneArgs, CloneState> {
  return {
    type: "qmclone",
    lock: "clone",
    initialState: () => ({ drives: {} }),
    steps: [
      {
        name: "reserve",
        run: async ({ args, state, checkpoint, log }) => {
          const config = host.configs.get(args.vmid);
          if (state.existing === undefined) {
            log(`creating a clone of VM ${args.vmid} with ID ${args.newid}`);
            if (host.configs.isTaken(args.newid)) throw alreadyCloned(args.newid);
            checkCloneable(host, args, config);
            state.existing = await listVolumes(host, args.newid, cloneStorages(config, args));
            await checkpoint();
          }
          if (!host.configs.has(args.newid))
            await host.configs.create(
              args.newid,
              { ...emptyVmConfig, values: { lock: "clone" } },
              { pool: args.pool, madeBy: args.madeBy, microvm: host.configs.microvm(args.vmid) },
            );
        },
        undo: async ({ args, state }) => {
          if (state.existing !== undefined && state.handedOver !== true)
            await host.configs.remove(args.newid);
        },
      },
      {
        name: "disks",
        weight: 8,
        run: (ctx) => withPrefix("clone failed: ", () => copyDisks(host, ctx)),
        undo: (ctx) => dropDisks(host, ctx),
      },
      {
        name: "configuration",
        run: async ({ args, state, clock, signal, warn }) => {
          const source = sourceValues(host.configs.get(args.vmid), args);
          const values: Record<string, string> = {
            ...cloneValues(source, {
              newUuid: host.ids.newUuid,
              newMac: host.ids.newMac,
              vmid: args.vmid,
              ...given({ name: args.name }),
            }),
            ...Object.fromEntries(
              Object.entries(state.drives).map(([key, text]) => [
                key,
                keepNumberText(source[key] ?? "", text),
              ]),
            ),
          };
          values["smbios1"] ??= printVmProperty("smbios1", { uuid: host.ids.newUuid() });
          if (args.description !== undefined) values["description"] = args.description;
          await host.configs.change(args.newid, (config) =>
            config.values["lock"] === "clone" ? { ...config, values } : config,
          );
          if (!(await host.configs.waitForPool(args.newid, clock, signal)))
            warn(`VM ${args.newid} is not yet in pool '${args.pool ?? ""}'`);
        },
      },
      {
        name: "hand over",
        run: (ctx) => handOver(host, ctx),
        undo: (ctx) => callOff(host, ctx),
      },
    ],
  };
}

/** As a VM that is off is moved: its disks lie where the other node has them too. */
async function handOver({ moves }: CloneVmPorts, { args, state, log, clock }: Context): Promise<void> {
  const { newid, target } = args;
  if (target === undefined || state.handedOver === true) return;
  const askAgain = (): Promise<string> => moves.servers.withdraw(moveOf(args));
  const ask = (): Promise<string> => moves.servers.handOver(moveOf(args));
  const owner = await untilAnswered({ ask, askAgain, clock, log });
  if (owner !== target)
    throw new AppError("operation.failed", `VM ${newid} could not be given to node '${target}'`, {
      pveStatus: 500,
    });
  state.handedOver = true;
  log(`node '${target}' has VM ${newid} now`);
}

async function callOff(
  { configs, moves }: CloneVmPorts,
  { args, state, log, clock }: Context,
): Promise<void> {
  if (args.target === undefined) return;
  const ask = (): Promise<string> => moves.servers.withdraw(moveOf(args));
  const owner = await untilAnswered({ ask, clock, log });
  state.handedOver = owner !== configs.node;
}

const moveOf = ({ newid, madeBy = "" }: CloneArgs): MoveName => ({ vmid: newid, moveId: madeBy });

async function copyDisks(host: CloneVmPorts, ctx: Context): Promise<void> {
  const { args, state, checkpoint } = ctx;
  const live: { key: string; drive: Drive; volname: string; storage: string }[] = [];
  const isLive = args.snapname === undefined && args.full && runningVm(host, args.vmid) !== undefined;
  const source = sourceValues(host.configs.get(args.vmid), args);
  for (const { key, drive } of listDrives(source)) {
    if (state.drives[key] !== undefined || isCdrom(drive, true) || parseVolumeId(drive.file) === undefined)
      continue;
    if (isLive && isInQemu(source, key) && !isCloudinitVolume(drive.file)) {
      live.push({ key, drive, ...(await allocateLike(host, ctx, drive)) });
      continue;
    }
    state.drives[key] = printDrive(key, await copyOne(host, ctx, key, drive));
    await checkpoint();
  }
  await copyLive(host, ctx, live);
}

async function copyOne(host: CloneVmPorts, ctx: Context, key: string, drive: Drive): Promise<Drive> {
  const { args, signal, log, progress } = ctx;
  const source = volumeOf(host, drive.file);
  await source.plugin.activate();
  const { format: _format, ...rest } = drive;
  if (isCloudinitVolume(drive.file)) {
    const { format: own } = source.plugin.block(source.volname);
    const to = args.storage ?? source.storage;
    const file = await allocateCloudinit(host, args.newid, to, args.format ?? own, ctx);
    return { ...rest, file, size: CLOUDINIT_DRIVE_BYTES };
  }
  if (!isFullCopy(args, key, drive) && source.plugin.has("clone", source.volname)) {
    log(`create linked clone of '${drive.file}'`);
    const volname = await source.plugin.cloneLinked(source.volname, args.newid, { signal, log });
    return { ...rest, file: formatVolumeId({ storage: source.storage, volname }) };
  }
  const storage = args.storage ?? source.storage;
  const plugin = host.storages.plugin(storage);
  await plugin.activate();
  const { format } = source.plugin.block(source.volname);
  const wanted = isTpmState(key) ? "raw" : plugin.format(args.format ?? format);
  log(`create full clone of '${drive.file}' on storage '${storage}'`);
  const moment = { snapshot: args.snapname };
  const image = await source.plugin.attach(source.volname, moment);
  try {
    const volname = await plugin.importFrom(
      image,
      { vmid: args.newid, format: wanted },
      { signal, log, progress, ...bandwidth(args.limits?.[source.storage]) },
    );
    const { size } = await plugin.info(volname);
    return { ...rest, file: formatVolumeId({ storage, volname }), size };
  } finally {
    await source.plugin.detach(source.volname, moment);
  }
}

async function allocateLike(
  host: CloneVmPorts,
  { args, signal, log }: Context,
  drive: Drive,
): Promise<{ volname: string; storage: string }> {
  const source = volumeOf(host, drive.file);
  const storage = args.storage ?? source.storage;
  const plugin = host.storages.plugin(storage);
  await plugin.activate();
  const { size } = await source.plugin.info(source.volname);
  const format = plugin.format(args.format ?? source.plugin.block(source.volname).format);
  return { storage, volname: await plugin.alloc({ vmid: args.newid, format, size }, { signal, log }) };
}

async function copyLive(
  host: CloneVmPorts,
  ctx: Context,
  disks: readonly { key: string; drive: Drive; volname: string; storage: string }[],
): Promise<void> {
  const { args, state, signal, log, progress } = ctx;
  const process = runningVm(host, args.vmid);
  if (disks.length === 0) return;
  if (process === undefined) throw refused(`VM ${args.vmid} ended while its disks were copied`);
  const jobs = disks.map(({ key, drive, volname, storage }) => ({
    ...jobOf(host, args.newid, key, storage, volname),
    ...bandwidth(args.limits?.[volumeOf(host, drive.file).storage]),
  }));
  log(`copying ${disks.length} disks of the running VM`);
  const wait: JobWait = {
    signal,
    onProgress: (job) => {
      if (job["total-progress"] > 0) progress(job["current-progress"] / job["total-progress"]);
    },
  };
  await copyAtOneMoment(process, jobs, wait, (begin) => withFrozenFilesystems(host, args.vmid, ctx, begin));
  for (const { key, drive, volname, storage } of disks) {
    const { format: _format, ...rest } = drive;
    const { size } = await host.storages.plugin(storage).info(volname);
    state.drives[key] = printDrive(key, { ...rest, file: formatVolumeId({ storage, volname }), size });
  }
}

function jobOf(host: CloneVmPorts, newid: number, key: string, storage: string, volname: string): DiskCopy {
  const id = `clone-${newid}-${key}`;
  return { id, key, target: { block: host.storages.plugin(storage).block(volname), node: id } };
}

/** Everything of the new id that was not there before, and whatever a QEMU still does with it. */
async function dropDisks(host: CloneVmPorts, { args, state, log }: Context): Promise<void> {
  const config = host.configs.find(args.vmid);
  if (state.existing === undefined || state.handedOver === true || config === undefined) return;
  const before = new Set(state.existing);
  const made = (await listVolumes(host, args.newid, cloneStorages(config, args))).filter(
    (volid) => !before.has(volid),
  );
  const process = runningVm(host, args.vmid);
  if (process !== undefined && args.full && args.snapname === undefined) {
    const ids = listDrives(config.values).map(({ key }) => `clone-${args.newid}-${key}`);
    const files = made.flatMap((volid) => fileOf(host, volid));
    await dropCopies(process, ids, files);
  }
  for (const volid of made) await freeVolume(host, volid, log);
}

export function sourceValues(config: VmConfig, { snapname }: Pick<CloneArgs, "snapname">): VmValues {
  return snapname === undefined ? config.values : requireSnapshot(config, snapname);
}

export function alreadyCloned(newid: number): AppError {
  return alreadyThere(`unable to create VM ${newid}: config file already exists`);
}

function canCopy(host: CheckClonePorts, drive: Drive, feature: "copy" | "clone", snapshot?: string): boolean {
  if (parseVolumeId(drive.file) === undefined) return false;
  const { plugin, volname } = volumeOf(host, drive.file);
  return plugin.has(feature, volname, snapshot === undefined ? {} : { snapshot });
}
