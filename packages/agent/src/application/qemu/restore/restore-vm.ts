// Restoring an archive as a VM: its id is taken, disks are made and filled, then the configuration names them. A VM
// that is replaced stays as it was until the archive has been read to its end.
import { refuseReachingKeys } from "@gpve/domain/vm/change/archived-keys.ts";
import { AppError, messageOf } from "@gpve/contracts/errors.ts";
import type { ArchiveReader, BackupArchives } from "@gpve/domain/backup/backup-ports.ts";
import { readArchivedMicrovm } from "@gpve/domain/backup/archived-microvm.ts";
import type { Microvm } from "@gpve/domain/guest/guest-record.ts";
import { parseVolumeId } from "@gpve/domain/storage/volume-id.ts";
import { listDisks } from "@gpve/domain/vm/config/drive.ts";
import { isTemplate, setLock } from "@gpve/domain/guest/guest-lock.ts";
import { withMac } from "@gpve/domain/vm/change/new-vm.ts";
import { parseVmConfig } from "@gpve/domain/vm/config/parse-config.ts";
import { restoreConfigText } from "@gpve/domain/vm/change/restore-config.ts";
import { emptyVmConfig, type VmConfig, type VmValues } from "@gpve/domain/vm/config/vm-config.ts";
import { without } from "@gpve/domain/guest/guest-config.ts";
import { ignore } from "@gpve/kit/background.ts";
import type { OperationDefinition, StepContext } from "@gpve/kit/operation/definition.ts";
import { convertDisks } from "../disk/make-template.ts";
import { freeVolume, listVolumes } from "../config/free-volumes.ts";
import { endLive, liveRestore, type LiveRestorePorts, type LiveRestoreTools } from "./live-restore.ts";
import { configOf, openBackup } from "../chain/open-backup.ts";
import { checkReplaceable, freeReplaced, withKeptDisks } from "./replaced-vm.ts";
import { restoreRefused, type RestoreArgs, type RestoreState } from "./restore-request.ts";
import {
  fillVolumes,
  makeCloudinitDiscs,
  makeRestoredVolumes,
  requireAllowed,
  type RestoreVolumesPorts,
} from "./restore-volumes.ts";
import { runningVm } from "../running-vm.ts";
import { volumeOf } from "../../guest/guest-storages.ts";
import type { Ids } from "@gpve/domain/guest/ids.ts";

export type RestoreTools = LiveRestoreTools & BackupArchives;

export interface RestoreVmPorts extends LiveRestorePorts, RestoreVolumesPorts {
  readonly ids: Ids;
}

type Context = StepContext<RestoreArgs, RestoreState>;

export function restoreVmOperation(
  host: RestoreVmPorts,
  tools: RestoreTools,
): OperationDefinition<RestoreArgs, RestoreState> {
  return {
    type: "qmrestore",
    lock: "create",
    initialState: () => ({ volumes: {} }),
    steps: [
      {
        name: "reserve",
        run: (ctx) => reserve(host, ctx),
        undo: async ({ args, state }) => {
          if (state.existing === undefined || isThere(host, args.vmid, state)) return;
          const { old } = state;
          if (old === undefined) await host.configs.remove(args.vmid);
          else await host.configs.replace(args.vmid, old, { microvm: state.oldMicrovm });
        },
      },
      {
        name: "restore",
        weight: 10,
        run: (ctx) => restore(host, tools, ctx),
        undo: async (ctx) => {
          const { args, state, log } = ctx;
          // The new VM is whole: the way out is forward.
          if (isThere(host, args.vmid, state)) return dropOld(host, ctx);
          if (state.isLive === true) await endLive(host, args.vmid);
          const before = new Set(state.existing);
          for (const volid of await listVolumes(host, args.vmid, args.storages))
            if (!before.has(volid)) await freeVolume(host, volid, log);
        },
      },
      {
        name: "old volumes",
        run: (ctx) => dropOld(host, ctx),
        undo: (ctx) => dropOld(host, ctx),
      },
      {
        name: "start",
        run: async (ctx) => {
          const { vmid, start } = ctx.args;
          if (!start || runningVm(host, vmid) !== undefined) return;
          ctx.log("Execute autostart");
          // A VM that was restored but does not start is still there.
          await host.starter.start({ vmid }, ctx).catch((err: unknown) => ctx.warn(messageOf(err)));
        },
      },
    ],
  };
}

async function reserve(host: RestoreVmPorts, { args, state, checkpoint }: Context): Promise<void> {
  const { vmid } = args;
  if (state.existing === undefined) {
    const old = args.force === true && host.configs.has(vmid) ? checkReplaceable(host, vmid) : undefined;
    if (old === undefined) requireFree(host, vmid);
    else {
      const microvm = host.configs.microvm(vmid);
      Object.assign(state, { old }, microvm === undefined ? {} : { oldMicrovm: microvm });
    }
    state.existing = await listVolumes(host, vmid, args.storages);
    await checkpoint();
  }
  if (state.old === undefined) {
    if (!host.configs.has(vmid))
      await host.configs.create(
        vmid,
        { ...emptyVmConfig, values: { lock: "create" } },
        { pool: args.pool, madeBy: args.madeBy },
      );
    return;
  }
  await host.configs.change(vmid, (config) =>
    config.values["lock"] === "create" ? config : setLock(config, "create"),
  );
}

/** Throws PVE's text when any guest of the cluster has the id. */
export function requireFree(host: RestoreVmPorts, vmid: number): void {
  const taken = host.configs.ownerOf(vmid);
  if (taken !== undefined)
    throw new AppError(
      "object.exists",
      restoreRefused(vmid, `${taken.kind} ${vmid} already exists on node '${taken.node}'`),
      { pveStatus: 500 },
    );
}

async function restore(host: RestoreVmPorts, tools: RestoreTools, ctx: Context): Promise<void> {
  const { args, state, log } = ctx;
  if (isThere(host, args.vmid, state)) return;
  log(`restore vma archive: ${args.archive}`);
  const reader = await openBackup(host, tools, args.archive, ctx.signal);
  try {
    await restoreFrom(reader, host, tools, ctx);
  } finally {
    await reader.close();
  }
}

async function restoreFrom(
  reader: ArchiveReader,
  host: RestoreVmPorts,
  tools: RestoreTools,
  ctx: Context,
): Promise<void> {
  const { args, state, log, warn } = ctx;
  const conf = configOf(reader.header.configs);
  for (const [name, content] of reader.header.configs) log(`CFG: size: ${content.length} name: ${name}`);
  for (const { id, size, name } of reader.header.devices)
    log(`DEV: dev_id=${id} size: ${size} devname: ${name}`);
  if (reader.header.configs.has("qemu-server.fw"))
    warn("the archive's firewall rules are left out: this version has no firewall of guests");
  await makeRestoredVolumes(host, args, reader, conf, state, ctx);
  await makeCloudinitDiscs(host, args, conf, state, ctx);
  const values = restoredValues(host, args, state, conf, warn);
  const microvm = restoredMicrovm(host, conf, args);
  if (args.live === true && !isTemplate({ ...emptyVmConfig, values }))
    await liveRestore(host, tools, args, reader, { conf, values, microvm }, state, ctx);
  else await fillVolumes(host, tools, reader, conf, state.volumes, { ...ctx, bwlimit: args.bwlimit ?? 0 });
  state.isRestored = true;
  await ctx.checkpoint();
  // One that takes another's place has an origin of its own now; a new one has had it since it was reserved.
  const origin = state.old === undefined ? {} : { pool: args.pool, madeBy: args.madeBy };
  await host.configs.replace(args.vmid, { ...emptyVmConfig, values }, { microvm, ...origin });
  if (args.pool !== undefined) {
    if (!(await host.configs.waitForPool(args.vmid, ctx.clock, ctx.signal)))
      warn(`VM ${args.vmid} is not yet in pool '${args.pool}'`);
  }
  if (isTemplate({ ...emptyVmConfig, values })) {
    log("Convert to template.");
    await convertDisks(host, args.vmid, undefined, ctx).catch((err: unknown) => warn(messageOf(err)));
  }
}

/** The values of the new VM: those of the archive with their new disks, what the request says instead, and kept disks. */
export function restoredValues(
  host: RestoreVmPorts,
  args: RestoreArgs,
  state: RestoreState,
  conf: string,
  warn: (line: string) => void,
): VmValues {
  const text = restoreConfigText(conf, {
    volumes: { ...state.volumes, ...state.discs },
    unique: args.unique,
    newMac: host.ids.newMac,
    newUuid: host.ids.newUuid,
  });
  const { values } = parseVmConfig(text, {
    vmid: args.vmid,
    digestOf: () => "",
    warn,
  });
  const overrides = Object.fromEntries(
    Object.entries(args.overrides ?? {}).map(([key, value]) => [
      key,
      /^net\d+$/.test(key) ? withMac(value, host.ids.newMac) : value,
    ]),
  );
  // Looked at when it was asked for; but an archive may be another one by now.
  if (args.limited === true)
    refuseReachingKeys(args.vmid, { ...values, ...overrides }, knownConfigs(host, args, state.old));
  const merged = withoutForeignDisks(host, args, { ...values, ...overrides }, warn);
  return state.old === undefined ? merged : withKeptDisks(host, args.vmid, state.old, merged);
}

/** Of the VM that the archive is of and the one that is replaced. */
export function knownConfigs(
  host: RestoreVmPorts,
  { vmid, archive }: RestoreArgs,
  replaced: VmConfig | undefined = host.configs.find(vmid),
): VmValues[] {
  const owner = parseVolumeId(archive) === undefined ? undefined : archivedVmid(host, archive);
  const saved = owner === undefined ? undefined : host.configs.find(owner);
  return [saved, replaced].flatMap((config) => (config === undefined ? [] : [config.values]));
}

function archivedVmid(host: RestoreVmPorts, archive: string): number | undefined {
  const { plugin, volname } = volumeOf(host, archive);
  return plugin.parse(volname).vmid;
}

/** A disk that the archive names but does not hold is the other VM's as ever: two guests must not write to it. */
function withoutForeignDisks(
  host: RestoreVmPorts,
  { vmid }: RestoreArgs,
  values: VmValues,
  warn: (line: string) => void,
): VmValues {
  const foreign = listDisks(values).filter(({ drive }) => {
    const owner = ownerOf(host, drive.file);
    return owner !== undefined && owner !== vmid;
  });
  for (const { key, drive } of foreign)
    warn(`drive '${key}' is left out: the archive does not hold '${drive.file}' of another VM`);
  // Saved RAM is in no archive: the volume is another VM's, or one that is gone.
  return without(values, "lock", "vmstate", ...foreign.map(({ key }) => key));
}

/** The VM whose image a volume is; undefined for what no storage of this node knows. */
function ownerOf(host: RestoreVmPorts, volid: string): number | undefined {
  if (parseVolumeId(volid) === undefined) return undefined;
  try {
    const { plugin, volname } = volumeOf(host, volid);
    const parsed = plugin.parse(volname);
    return parsed.type === "images" ? parsed.vmid : undefined;
  } catch (err) {
    ignore(err, "a storage of the place the archive comes from");
    return undefined;
  }
}

/** What it boots lies on storages that whoever restores it must have a say on, as for its disks. */
function restoredMicrovm(host: RestoreVmPorts, conf: string, args: RestoreArgs): Microvm | undefined {
  const microvm = readArchivedMicrovm(conf);
  if (microvm === undefined) return undefined;
  for (const volid of [microvm.kernel, ...(microvm.initrd === undefined ? [] : [microvm.initrd])])
    requireBootFile(host, volid, args);
  return microvm;
}

/** As if it was named by whoever restores it. */
function requireBootFile(host: RestoreVmPorts, volid: string, args: RestoreArgs): void {
  const { plugin, storage, volname } = volumeOf(host, volid);
  requireAllowed(args, storage);
  if (plugin.parse(volname).type === "snippets" && args.ownedStorages?.includes(storage) === false)
    throw new AppError("access.denied", `missing privileges to access ${volid}`, { pveStatus: 500 });
}

async function dropOld(host: RestoreVmPorts, { args, state, log, warn }: Context): Promise<void> {
  if (state.old !== undefined && isThere(host, args.vmid, state))
    await freeReplaced(host, args.vmid, state.old, { log, warn });
}

/** The restored VM is there: the lock that stands for an unfinished one is gone. */
function isThere(host: RestoreVmPorts, vmid: number, state: RestoreState): boolean {
  if (state.isRestored !== true) return false;
  const config: VmConfig | undefined = host.configs.find(vmid);
  return config !== undefined && config.values["lock"] !== "create";
}
