// Changing a configuration. Everything goes to [PENDING] first; what can take effect now does, the rest waits.
import { AppError, messageOf } from "@gpve/contracts/errors.ts";
import type { GuestProcess } from "@gpve/domain/guest/guest-processes.ts";
import { changeLive } from "./live/live-change.ts";
import { isNewDisk, makeDrive, type DiskWork } from "./new-disks.ts";
import { freeVolume, ownedVolumes } from "./free-volumes.ts";
import { limitsOf } from "./start-plan.ts";
import { runningVm, type VmHost } from "./vm-host.ts";
import { appendToBootOrder, checkBootOrder, dropFromBootOrder } from "@gpve/domain/vm/boot-order.ts";
import { checkDigest, stageUpdate, type ConfigUpdate } from "@gpve/domain/vm/config-update.ts";
import { isCdrom, requireDrive } from "@gpve/domain/vm/drive.ts";
import { isDriveKey } from "@gpve/domain/vm/keys.ts";
import { checkLock } from "@gpve/domain/vm/lock.ts";
import { withMac } from "@gpve/domain/vm/new-vm.ts";
import {
  applyAllPending,
  applyPending,
  cleanupPending,
  effectiveValues,
  pendingDeletes,
} from "@gpve/domain/vm/pending.ts";
import type { VmConfig, VmValues } from "@gpve/domain/vm/vm-config.ts";

export async function updateVmConfig(
  host: VmHost,
  vmid: number,
  update: ConfigUpdate,
  work: DiskWork,
): Promise<void> {
  const before = host.configs.get(vmid);
  checkDigest(before, update.digest);
  if (!update.skiplock) checkLock(before);
  const made = await makeNewDrives(host, vmid, before, update, work);
  const running = runningVm(host, vmid);
  try {
    const set = { ...update.set, ...netsWithMac(host, before, update), ...made.values };
    await host.configs.change(vmid, (config) => {
      const staged = withBootOrder(stageUpdate(config, { ...update, set }), update);
      checkBootOrder(effectiveValues(staged));
      return cleanupPending(running === undefined ? applyAllPending(staged) : staged);
    });
  } catch (err) {
    for (const volid of made.volumes) await freeVolume(host, volid, work.log);
    throw err;
  }
  // From here on the new disks are in the configuration, if only as pending.
  const problems = running === undefined ? {} : await applyToRunning(host, vmid, running, work.log);
  await freeDropped(host, vmid, before, host.configs.get(vmid), work.log);
  if (Object.keys(problems).length > 0)
    throw new AppError("request.invalid", "Parameter verification failed.", { errors: problems });
}

/** What the guest can take over now moves out of [PENDING]; removals go first. Returns key -> what went wrong. */
async function applyToRunning(
  host: VmHost,
  vmid: number,
  process: GuestProcess,
  log: (line: string) => void,
): Promise<Record<string, string>> {
  const problems: Record<string, string> = {};
  const { pending, ...staged } = host.configs.get(vmid);
  const removed = [...pendingDeletes({ ...staged, pending }).keys()].toSorted();
  const set = Object.keys(pending)
    .filter((key) => key !== "delete" && !removed.includes(key))
    .toSorted();
  for (const key of [...removed, ...set]) {
    try {
      const { values } = host.configs.get(vmid);
      const outcome = await changeLive({ host, vmid, process, log }, values, key, pending[key]);
      if (outcome === "applied")
        await host.configs.change(vmid, (config) => cleanupPending(applyPending(config, key)));
    } catch (err) {
      problems[key] = `hotplug problem - ${messageOf(err)}`;
    }
  }
  if ([...removed, ...set].some((key) => key === "cpuunits" || key === "cpulimit"))
    process.setLimits(limitsOf(host.configs.get(vmid).values));
  return problems;
}

interface MadeDrives {
  readonly values: Record<string, string>;
  readonly volumes: readonly string[];
}

async function makeNewDrives(
  host: VmHost,
  vmid: number,
  before: VmConfig,
  update: ConfigUpdate,
  work: DiskWork,
): Promise<MadeDrives> {
  const values: Record<string, string> = {};
  const volumes: string[] = [];
  const known = new Set(ownedVolumes(host, vmid, before));
  try {
    for (const [key, text] of Object.entries(update.set)) {
      if (!isDriveKey(key)) continue;
      values[key] = await makeDrive(host, vmid, key, text, work);
      const { file } = requireDrive(key, values[key]);
      if (isNewDisk(key, text) && !known.has(file)) volumes.push(file);
    }
  } catch (err) {
    for (const volid of volumes) await freeVolume(host, volid, work.log);
    throw err;
  }
  return { values, volumes };
}

/** A new network card gets an address of its own; one that is changed without naming it keeps its old one. */
function netsWithMac(host: VmHost, before: VmConfig, update: ConfigUpdate): Record<string, string> {
  const current = effectiveValues(before);
  const nets = Object.entries(update.set).filter(([key]) => /^net\d+$/.test(key));
  return Object.fromEntries(
    nets.map(([key, text]) => [key, withMac(text, () => macOf(current[key]) ?? host.newMac())]),
  );
}

function macOf(text: string | undefined): string | undefined {
  return text === undefined
    ? undefined
    : /(?:^|[=,])((?:[0-9A-F]{2}:){5}[0-9A-F]{2})(?:,|$)/i.exec(text)?.[1];
}

/** A device that goes leaves the boot order; a CD drive that comes joins it. */
function withBootOrder(config: VmConfig, update: ConfigUpdate): VmConfig {
  if (update.set["boot"] !== undefined || config.values["boot"] === undefined) return config;
  let values: VmValues = config.values;
  for (const key of update.delete) values = dropFromBootOrder(values, key);
  for (const [key, text] of Object.entries(update.set)) {
    if (!isDriveKey(key) || config.values[key] !== undefined) continue;
    if (isCdrom(requireDrive(key, text))) values = appendToBootOrder(values, key);
  }
  return { ...config, values };
}

/** Volumes of this VM that no section names any more: deleted unused disks, disks removed by force, cloud-init drives. */
async function freeDropped(
  host: VmHost,
  vmid: number,
  before: VmConfig,
  after: VmConfig,
  log: (line: string) => void,
): Promise<void> {
  const kept = new Set(ownedVolumes(host, vmid, after));
  for (const volid of ownedVolumes(host, vmid, before))
    if (!kept.has(volid)) await freeVolume(host, volid, log);
}
