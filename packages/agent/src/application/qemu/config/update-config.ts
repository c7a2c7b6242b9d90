// Changing a configuration. Everything goes to [PENDING] first; what can take effect now does, the rest waits.
import { parameterError } from "@gpve/domain/request/failures.ts";
import { messageOf } from "@gpve/contracts/errors.ts";
import type { QemuProcess } from "@gpve/domain/vm/qemu-processes.ts";
import { refuseSecondCloudinit, writeCloudinit } from "./cloudinit-drive.ts";
import { regenerateCloudinit } from "./regenerate-cloudinit.ts";
import { checkAgainstConfig, keepReplaced, refuseClonedDisks } from "./check-update.ts";
import { changeLive } from "../live/live-change.ts";
import { isNewDisk, makeDrive, type DiskWork, type NewDisksPorts } from "./new-disks.ts";
import { freeDropped, freeVolume, ownedVolumes, withoutLent } from "./free-volumes.ts";
import { limitsOf, type StartPlanPorts } from "../start/start-plan.ts";
import { appendToBootOrder, checkBootOrder, dropFromBootOrder } from "@gpve/domain/vm/config/boot-order.ts";
import {
  checkDigest,
  stageUpdate,
  withDiscardedState,
  type ConfigUpdate,
} from "@gpve/domain/vm/change/config-update.ts";
import { recordCloudinitChange } from "@gpve/domain/vm/cloudinit/cloudinit-state.ts";
import {
  findCloudinitDrive,
  isCdrom,
  isCloudinitVolume,
  listDrives,
  requireDrive,
} from "@gpve/domain/vm/config/drive.ts";
import { hotplugClass } from "@gpve/domain/vm/change/hotplug.ts";
import { isDriveKey } from "@gpve/domain/vm/config/keys.ts";
import { checkLock } from "@gpve/domain/guest/guest-lock.ts";
import { pinnedMachine } from "@gpve/domain/vm/change/new-machine.ts";
import { withMac } from "@gpve/domain/vm/change/new-vm.ts";
import {
  applyAllPending,
  applyPending,
  cleanupPending,
  effectiveValues,
  pendingDeletes,
  stageDelete,
  stageValue,
} from "@gpve/domain/vm/change/pending.ts";
import type { VmConfig, VmValues } from "@gpve/domain/vm/config/vm-config.ts";
import { readBootDevices, readHotplug } from "@gpve/domain/vm/config/vm-properties.ts";
import { runningVm } from "../running-vm.ts";

export interface UpdateConfigPorts extends StartPlanPorts, NewDisksPorts {}

export async function updateVmConfig(
  host: UpdateConfigPorts,
  vmid: number,
  request: ConfigUpdate,
  work: DiskWork,
): Promise<void> {
  const before = host.configs.get(vmid);
  const update = withDiscardedState(before, request);
  checkDigest(before, update.digest);
  if (!update.skiplock) checkLock(before);
  checkAgainstConfig(host, vmid, before, update);
  await refuseClonedDisks(host, vmid, before, update);
  const filledIn = await filledInValues(host, before, update, work);
  const made = await makeNewDrives(host, vmid, before, update, work);
  const running = runningVm(host, vmid);
  const set = { ...update.set, ...filledIn, ...made.values };
  const asked = new Set([...Object.keys(set), ...update.delete, ...update.revert]);
  const changed = (config: VmConfig): VmConfig => {
    const kept = keepReplaced(host, vmid, config, { ...update, set });
    const staged = withBootOrder(stageUpdate(kept, { ...update, set }), update);
    // An order that was there before may name what it likes, as on PVE.
    if (set["boot"] !== undefined) checkBootOrder(effectiveValues(staged));
    return cleanupPending(
      running === undefined
        ? withoutLent(host, vmid, staged, applyAllPending(staged))
        : appliedAtOnce(host, vmid, staged, asked),
    );
  };
  try {
    if (running === undefined && findCloudinitDrive(made.values) !== undefined)
      await writeCloudinit(host, vmid, changed(before).values, work.log);
    await host.configs.change(vmid, changed);
  } catch (err) {
    for (const volid of made.volumes) await freeVolume(host, volid, work.log);
    throw err;
  }
  // From here on the new disks are in the configuration, if only as pending.
  const problems = running === undefined ? {} : await applyToRunning(host, vmid, running, asked, work.log);
  await freeDropped(host, vmid, before, host.configs.get(vmid), work.log);
  if (running !== undefined && wantsNewDisc(host.configs.get(vmid)))
    await regenerateCloudinit(host, vmid, work.log);
  if (Object.keys(problems).length > 0) throw parameterError(problems);
}

/** What the running guest has no part in is in force with the same write, and holds the VM for one write only. */
function appliedAtOnce(
  host: UpdateConfigPorts,
  vmid: number,
  staged: VmConfig,
  asked: ReadonlySet<string>,
): VmConfig {
  return [...asked]
    .filter((key) => hotplugClass(key) === "immediate")
    .reduce((config, key) => applyAndRecord(host, vmid, config, key), staged);
}

/**
 * What was asked for now and the guest can take over moves out of [PENDING]; removals go first. What waits from before
 * goes on waiting: it failed, or needs a start. Returns key -> what went wrong.
 */
async function applyToRunning(
  host: UpdateConfigPorts,
  vmid: number,
  process: QemuProcess,
  asked: ReadonlySet<string>,
  log: (line: string) => void,
): Promise<Record<string, string>> {
  const problems: Record<string, string> = {};
  const { pending, ...staged } = host.configs.get(vmid);
  const removed = [...pendingDeletes({ ...staged, pending }).keys()]
    .filter((key) => asked.has(key))
    .toSorted();
  const discs = new Set(
    listDrives(pending).flatMap(({ key, drive }) => (isCloudinitVolume(drive.file) ? [key] : [])),
  );
  const set = Object.keys(pending)
    .filter((key) => key !== "delete" && asked.has(key) && !removed.includes(key))
    // A cloud-init drive is made of everything else.
    .toSorted((a, b) => Number(discs.has(a)) - Number(discs.has(b)) || (a < b ? -1 : 1));
  for (const key of [...removed, ...set]) {
    try {
      const { values } = host.configs.get(vmid);
      const text = pending[key];
      if (discs.has(key)) await writeCloudinit(host, vmid, { ...values, [key]: text ?? "" }, log);
      const outcome = await changeLive({ host, vmid, process, log }, values, key, text);
      if (outcome === "applied")
        await host.configs.change(vmid, (config) => cleanupPending(applyAndRecord(host, vmid, config, key)));
    } catch (err) {
      problems[key] = `hotplug problem - ${messageOf(err)}\n`;
    }
  }
  if (asked.has("cpuunits") || asked.has("cpulimit"))
    // What was removed is as if it had never been set.
    process.setLimits({ cpuUnits: 0, cpuLimit: 0, ...limitsOf(host.configs.get(vmid).values) });
  return problems;
}

/** The drive's disc in a running guest does not follow by itself: what it lacks is noted. */
function applyAndRecord(host: UpdateConfigPorts, vmid: number, config: VmConfig, key: string): VmConfig {
  const next = withoutLent(host, vmid, config, applyPending(config, key));
  return recordCloudinitChange(next, key, config.values[key], next.values[key]);
}

function wantsNewDisc({ values, special }: VmConfig): boolean {
  return special["cloudinit"] !== undefined && readHotplug(values["hotplug"]).has("cloudinit");
}

interface MadeDrives {
  readonly values: Record<string, string>;
  readonly volumes: readonly string[];
}

async function makeNewDrives(
  host: UpdateConfigPorts,
  vmid: number,
  before: VmConfig,
  update: ConfigUpdate,
  work: DiskWork,
): Promise<MadeDrives> {
  const values: Record<string, string> = {};
  const volumes: string[] = [];
  const known = new Set(ownedVolumes(host, vmid, before));
  const after = { ...effectiveValues(before), ...update.set };
  try {
    for (const [key, text] of Object.entries(update.set)) {
      if (!isDriveKey(key)) continue;
      refuseSecondCloudinit(key, requireDrive(key, text), [before.values, before.pending, values]);
      values[key] = await makeDrive(host, vmid, key, text, { ...work, values: after });
      const { file } = requireDrive(key, values[key]);
      if (!isNewDisk(key, text)) continue;
      work.log(`${key}: successfully created disk '${values[key]}'`);
      if (!known.has(file)) volumes.push(file);
      await work.checkpoint?.();
    }
  } catch (err) {
    for (const volid of volumes) await freeVolume(host, volid, work.log);
    throw err;
  }
  return { values, volumes };
}

/** Values that are not stored as they came: addresses of network cards, a new identity, the machine of a Windows. */
async function filledInValues(
  host: UpdateConfigPorts,
  before: VmConfig,
  { set, delete: removed }: ConfigUpdate,
  work: DiskWork,
): Promise<Record<string, string>> {
  const nets = Object.entries(set).filter(([key]) => /^net\d+$/.test(key));
  // As on PVE, a card that comes without an address is another card: who wants to keep the old one names it.
  const values = Object.fromEntries(nets.map(([key, text]) => [key, withMac(text, host.ids.newMac)]));
  // `1` asks for one; `0` for none.
  if (set["vmgenid"] === "1") values["vmgenid"] = host.ids.newUuid();
  const { machine, ostype } = set;
  if (machine !== undefined) pinnedMachine(machine, undefined, "0");
  else if (ostype !== undefined && !removed.includes("machine") && before.pending["machine"] === undefined) {
    await host.qemu.known();
    const pinned = pinnedMachine(before.values["machine"], ostype, host.qemu.facts().qemuVersion);
    if (pinned !== undefined) {
      work.log(`pinning machine type to '${pinned}' for Windows guest OS`);
      values["machine"] = pinned;
    }
  }
  return values;
}

/**
 * A device that goes leaves the boot order; a CD drive that comes joins it. Like every change that waits for the next
 * start of a running guest. An order takes the place of the old `bootdisk`.
 */
function withBootOrder(config: VmConfig, update: ConfigUpdate): VmConfig {
  const now = effectiveValues(config);
  if (update.set["boot"] !== undefined) {
    const replaces = config.values["bootdisk"] !== undefined && readBootDevices(now["boot"]) !== undefined;
    return replaces ? stageDelete(config, "bootdisk") : config;
  }
  if (now["boot"] === undefined) return config;
  let values: VmValues = now;
  for (const key of update.delete) values = dropFromBootOrder(values, key);
  for (const [key, text] of Object.entries(update.set)) {
    if (!isDriveKey(key) || config.values[key] !== undefined) continue;
    if (isCdrom(requireDrive(key, text), true)) values = appendToBootOrder(values, key);
  }
  const { boot } = values;
  return boot === undefined || boot === now["boot"] ? config : stageValue(config, "boot", boot);
}
