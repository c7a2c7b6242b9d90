// Changing a configuration. Everything goes to [PENDING] first; what can take effect now does, the rest waits.
import { isNewDisk, makeDrive, type DiskWork } from "./new-disks.ts";
import { freeVolume, ownedVolumes } from "./free-volumes.ts";
import { limitsOf } from "./start-plan.ts";
import { runningVm, type VmHost } from "./vm-host.ts";
import { appendToBootOrder, checkBootOrder, dropFromBootOrder } from "@gpve/domain/vm/boot-order.ts";
import { checkDigest, stageUpdate, type ConfigUpdate } from "@gpve/domain/vm/config-update.ts";
import { isCdrom, requireDrive } from "@gpve/domain/vm/drive.ts";
import { hotplugClass } from "@gpve/domain/vm/hotplug.ts";
import { isDriveKey } from "@gpve/domain/vm/keys.ts";
import { checkLock } from "@gpve/domain/vm/lock.ts";
import { withMac } from "@gpve/domain/vm/new-vm.ts";
import { applyAllPending, applyPending, cleanupPending, effectiveValues } from "@gpve/domain/vm/pending.ts";
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
  try {
    const set = { ...update.set, ...netsWithMac(host, before, update), ...made.values };
    const running = runningVm(host, vmid);
    const stored = await host.configs.change(vmid, (config) => {
      const staged = withBootOrder(stageUpdate(config, { ...update, set }), update);
      checkBootOrder(effectiveValues(staged));
      return cleanupPending(running === undefined ? applyAllPending(staged) : applyImmediate(staged));
    });
    running?.setLimits(limitsOf(stored.values));
    await freeDropped(host, vmid, before, stored, work.log);
  } catch (err) {
    for (const volid of made.volumes) await freeVolume(host, volid, work.log);
    throw err;
  }
}

/** Keys that need nothing of the running guest but to be written down. */
function applyImmediate(config: VmConfig): VmConfig {
  const staged = [...Object.keys(config.pending), ...(config.pending["delete"]?.split(/[,;\s]+/) ?? [])];
  return staged
    .map((key) => key.replace(/^!/, ""))
    .filter((key) => key !== "" && key !== "delete" && hotplugClass(key) === "immediate")
    .reduce(applyPending, config);
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
