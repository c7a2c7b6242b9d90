// What each method does to the VMs it is about, as far as quotas care. A method that is not here takes nothing.
//
// Work that only gives back (deleting, unlinking, making a template) needs no row: the configuration says so when it is
// done.
import { add, bytesOn, most, NOTHING, storageKey } from "../../quota/amounts.ts";
import type { Answers, Effect, Unknowns } from "../../quota/effects.ts";
import { selectsAll, splitVmids, type VzdumpSelection } from "../../backup/vzdump-parameters.ts";
import { splitList } from "../../schema/list.ts";
import { parseVolumeId } from "../../storage/volume-id.ts";
import { readConfigUpdate } from "../change/config-update.ts";
import { wantedBytes } from "../change/disk-size.ts";
import { effectiveValues, revertPending, stageDelete, stageValue } from "../change/pending.ts";
import {
  isCdrom,
  isCloudinitVolume,
  listDisks,
  listDrives,
  parseDrive,
  printDrive,
} from "../config/drive.ts";
import { hasLock } from "../../guest/guest-lock.ts";
import { parseVmConfig } from "../config/parse-config.ts";
import { snapshotOf, without } from "../../guest/guest-config.ts";
import { emptyVmConfig, type VmConfig, type VmValues } from "../config/vm-config.ts";
import { ramVolumeBytes } from "../snapshot/ram-volume-size.ts";
import { vmDemand, vmVolumes, type VolumeSizes } from "../vm-demand.ts";
import { VM_TYPE } from "../vm-type.ts";
import { plannedValues, unknownVolumes } from "./planned-drives.ts";

export interface KnownVm {
  readonly vmid: number;
  readonly config: VmConfig;
  readonly sizes: VolumeSizes;
  /** How many its node sees. */
  readonly backups?: number | undefined;
}

export interface JudgedRequest {
  /** Checked by PVE's schema. */
  readonly params: Readonly<Record<string, unknown>>;
  /** undefined: there is no such VM. */
  readonly vm: (vmid: number) => KnownVm | undefined;
  /** VMs of the node that is called. */
  readonly ofNode: () => readonly KnownVm[];
  /** Guests that are in a pool itself. */
  readonly inPool: (pool: string) => readonly number[];
  /** Whether the caller has a privilege on a guest: of those he has not, nothing is said. */
  readonly may: (vmid: number, privilege: string) => boolean;
}

interface Row {
  readonly effects: (request: JudgedRequest, answers: Answers) => readonly Effect[];
  /** Default: nothing has to be asked. */
  readonly unknowns?: (request: JudgedRequest) => Unknowns;
}

const STATUS = "POST /nodes/{node}/qemu/{vmid}/status";
const configRow: Row = { effects: configured, unknowns: unknownOfSet };

export const vmEffects: Readonly<Record<string, Row>> = {
  "POST /nodes/{node}/qemu": {
    effects: (request, answers) =>
      request.params["archive"] === undefined ? created(request, answers) : restored(request, answers),
    unknowns: (request) => {
      const { archive } = request.params;
      return typeof archive === "string" ? { volumes: [], archive } : unknownOfSet(request);
    },
  },
  "POST /nodes/{node}/qemu/{vmid}/clone": { effects: cloned },
  "PUT /nodes/{node}/qemu/{vmid}/config": configRow,
  "POST /nodes/{node}/qemu/{vmid}/config": configRow,
  "PUT /nodes/{node}/qemu/{vmid}/resize": { effects: resized },
  "POST /nodes/{node}/qemu/{vmid}/move_disk": { effects: moved },
  "POST /nodes/{node}/qemu/{vmid}/snapshot": { effects: snapshotted },
  "POST /nodes/{node}/qemu/{vmid}/snapshot/{snapname}/rollback": { effects: rolledBack },
  [`${STATUS}/start`]: { effects: (request) => known(request, (vm) => [started(vm)]) },
  [`${STATUS}/resume`]: {
    effects: (request) => known(request, (vm) => (hasLock(vm.config, "suspended") ? [started(vm)] : [])),
  },
  [`${STATUS}/suspend`]: { effects: suspended },
  "POST /nodes/{node}/startall": { effects: startedAll },
  "POST /nodes/{node}/vzdump": { effects: backedUp },
};

export function tagsOf(values: VmValues): readonly string[] {
  return splitList(values["tags"] ?? "");
}

function created({ params }: JudgedRequest, answers: Answers): readonly Effect[] {
  const { set } = readConfigUpdate(params, { mayBeEmpty: true });
  const config = { ...emptyVmConfig, values: plannedValues(set, new Map(), answers) };
  return [newVm(Number(params["vmid"]), config, params, params["start"] === true)];
}

function restored({ params, vm }: JudgedRequest, { archived, sizes }: Answers): readonly Effect[] {
  if (archived === undefined) return [];
  const vmid = Number(params["vmid"]);
  const { set } = readConfigUpdate(params, { mayBeEmpty: true });
  const main = parseVmConfig(archived, { vmid, digestOf: () => "" }).values;
  const values = withDrivesOn(without(main, "lock", "parent", "template"), params["storage"]);
  const config = { ...emptyVmConfig, values: { ...values, ...set } };
  const starts = params["start"] === true || params["live-restore"] === true;
  const there = vm(vmid);
  if (there === undefined || params["force"] !== true) return [newVm(vmid, config, params, starts, sizes)];
  return [changed(there, config, starts)];
}

function cloned({ params, vm }: JudgedRequest): readonly Effect[] {
  const source = vm(Number(params["vmid"]));
  if (source === undefined) return [];
  const { snapname } = params;
  const values = typeof snapname === "string" ? snapshotOf(source.config, snapname) : source.config.values;
  if (values === undefined) return [];
  const own = without(values, "template", "lock", "parent", "vmstate", "snaptime");
  const config = { ...emptyVmConfig, values: withDrivesOn(own, params["storage"]) };
  return [newVm(Number(params["newid"]), config, params, false, source.sizes)];
}

function configured(request: JudgedRequest, answers: Answers): readonly Effect[] {
  return known(request, (vm) => {
    const update = readConfigUpdate(request.params, { mayBeEmpty: true });
    const set = plannedValues(update.set, vmVolumes(vm.config, vm.sizes), answers);
    let config = vm.config;
    for (const key of update.revert) config = revertPending(config, key);
    for (const key of update.delete) config = stageDelete(config, key);
    for (const [key, text] of Object.entries(set)) config = stageValue(config, key, text);
    return [changed({ ...vm, sizes: { ...vm.sizes, ...answers.sizes } }, config)];
  });
}

function resized(request: JudgedRequest): readonly Effect[] {
  return known(request, (vm) => {
    const disk = String(request.params["disk"]);
    const text = vm.config.values[disk];
    const drive = text === undefined ? undefined : parseDrive(disk, text);
    if (drive === undefined) return [];
    const size = wantedBytes(String(request.params["size"]), drive.size ?? 0);
    const values = { ...vm.config.values, [disk]: printDrive(disk, { ...drive, size }) };
    return [changed(vm, { ...vm.config, values })];
  });
}

/** The same bytes, elsewhere. What is moved away is given back when it is gone, and makes room for nothing before. */
function moved(request: JudgedRequest): readonly Effect[] {
  const { disk, storage, "target-vmid": to, delete: goes } = request.params;
  return known(request, (vm) => {
    const drive = parseDrive(String(disk), vm.config.values[String(disk)] ?? "");
    const from = drive === undefined ? undefined : parseVolumeId(drive.file)?.storage;
    if (drive === undefined || from === undefined) return [];
    const bytes = vmVolumes(vm.config, vm.sizes).get(drive.file) ?? 0;
    const taker = to === undefined ? undefined : request.vm(Number(to));
    if (taker !== undefined) return [grown(taker, bytesOn(from, bytes))];
    if (typeof storage !== "string") return [];
    return [grown(vm, goes === true ? { [storageKey(storage)]: bytes } : bytesOn(storage, bytes))];
  });
}

function snapshotted(request: JudgedRequest): readonly Effect[] {
  const { vmstate } = request.params;
  return known(request, (vm) => [
    grown(vm, add({ snapshots: 1 }, vmstate === true ? ramOf(vm, undefined) : NOTHING)),
  ]);
}

function suspended(request: JudgedRequest): readonly Effect[] {
  const { todisk, statestorage } = request.params;
  if (todisk !== true) return [];
  return known(request, (vm) => [grown(vm, ramOf(vm, statestorage))]);
}

function rolledBack(request: JudgedRequest): readonly Effect[] {
  return known(request, (vm) => {
    const section = snapshotOf(vm.config, String(request.params["snapname"]));
    if (section === undefined) return [];
    const starts = section["vmstate"] !== undefined || request.params["start"] === true;
    return [changed(vm, { ...vm.config, values: section, pending: {} }, starts)];
  });
}

function startedAll({ params, ofNode }: JudgedRequest): readonly Effect[] {
  const { vms, force } = params;
  const named = typeof vms === "string" ? new Set(splitList(vms).map(Number)) : undefined;
  return ofNode()
    .filter(({ vmid, config }) => {
      if (config.values["template"] === "1" || named?.has(vmid) === false) return false;
      return force === true || named !== undefined || config.values["onboot"] === "1";
    })
    .map(started);
}

/** One more of each; what retention removes goes only when the new one is there. */
function backedUp({ params, ofNode, inPool, may }: JudgedRequest): readonly Effect[] {
  const asked = params as VzdumpSelection;
  const { pool = "" } = asked;
  const isAll = pool === "" && selectsAll(asked);
  const named = new Set(pool === "" ? splitVmids(isAll ? asked.exclude : asked.vmid) : inPool(pool));
  return ofNode()
    .filter(({ vmid }) => named.has(vmid) !== isAll && may(vmid, "VM.Backup"))
    .map((vm) => grown(vm, { backups: (vm.backups ?? 0) + 1 }));
}

function unknownOfSet(request: JudgedRequest): Unknowns {
  const { params, vm } = request;
  const there = vm(Number(params["vmid"]));
  const own = there === undefined ? new Map<string, number>() : vmVolumes(there.config, there.sizes);
  return { volumes: unknownVolumes(readConfigUpdate(params, { mayBeEmpty: true }).set, own) };
}

function known(request: JudgedRequest, effects: (vm: KnownVm) => readonly Effect[]): readonly Effect[] {
  const vm = request.vm(Number(request.params["vmid"]));
  return vm === undefined ? [] : effects(vm);
}

function started(vm: KnownVm): Effect {
  return { ...grown(vm, NOTHING), starts: true };
}

function grown({ vmid, config, sizes }: KnownVm, more: Effect["demand"]): Effect {
  const tags = tagsOf(effectiveValues(config));
  return { vmid, type: VM_TYPE, demand: add(vmDemand(config, sizes), more), tags };
}

function changed({ vmid, config, sizes }: KnownVm, next: VmConfig, starts = false): Effect {
  return {
    vmid,
    type: VM_TYPE,
    demand: most(vmDemand(next, sizes), storageOnly(vmDemand(config, sizes))),
    tags: tagsOf(effectiveValues(next)),
    ...(starts ? { starts } : {}),
  };
}

/** Volumes go when the work is done, if at all; until then they are there. */
function storageOnly(demand: Effect["demand"]): Effect["demand"] {
  return Object.fromEntries(Object.entries(demand).filter(([key]) => key.startsWith("storage")));
}

function newVm(
  vmid: number,
  config: VmConfig,
  params: JudgedRequest["params"],
  starts: boolean,
  sizes: VolumeSizes = {},
): Effect {
  const pool = typeof params["pool"] === "string" ? params["pool"] : undefined;
  return {
    vmid,
    type: VM_TYPE,
    isNew: { pool },
    demand: vmDemand(config, sizes),
    tags: tagsOf(config.values),
    ...(starts ? { starts } : {}),
  };
}

/** Its disks as copies of them will be: on `storage`, where one is said; without what is not copied. */
function withDrivesOn(values: VmValues, storage: unknown): VmValues {
  const rest = Object.fromEntries(Object.entries(values).filter(([key]) => !/^unused\d+$/.test(key)));
  const drives = listDrives(rest).flatMap(({ key, drive }) => {
    const own = parseVolumeId(drive.file);
    if (own === undefined || (isCdrom(drive) && !isCloudinitVolume(drive.file))) return [];
    const to = typeof storage === "string" ? storage : own.storage;
    return [[key, printDrive(key, { ...drive, file: `${to}:${key}/${own.volname}` })] as const];
  });
  return { ...rest, ...Object.fromEntries(drives) };
}

function ramOf({ config }: KnownVm, storage: unknown): Effect["demand"] {
  const { values } = config;
  const [first] = listDisks(values).flatMap(({ drive }) => parseVolumeId(drive.file)?.storage ?? []);
  const to = typeof storage === "string" ? storage : (values["vmstatestorage"] ?? first ?? "local");
  return bytesOn(to, ramVolumeBytes(values));
}
