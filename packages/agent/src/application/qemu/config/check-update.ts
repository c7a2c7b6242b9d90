// What PVE refuses of a change when it meets the configuration: drives of a protected VM, volumes that something still
// names, another version of a TPM.
import { conflict, parameterError } from "@gpve/domain/request/failures.ts";
import type { AppError } from "@gpve/contracts/errors.ts";
import type { ConfigUpdate } from "@gpve/domain/vm/change/config-update.ts";
import {
  addUnused,
  driveFile,
  isCdrom,
  isCloudinitVolume,
  listDrives,
  parseDrive,
} from "@gpve/domain/vm/config/drive.ts";
import { parseVolumeId } from "@gpve/domain/storage/volume-id.ts";
import { isDriveKey } from "@gpve/domain/vm/config/keys.ts";
import type { VmConfig, VmValues } from "@gpve/domain/vm/config/vm-config.ts";
import { without } from "@gpve/domain/guest/guest-config.ts";
import { hasClones, isOwned } from "./free-volumes.ts";
import type { GuestStorages } from "../../guest/guest-storages.ts";
import type { VmConfigs } from "./vm-configs.ts";

export interface CheckUpdatePorts {
  readonly storages: GuestStorages;
  readonly configs: VmConfigs;
}

const UNUSED = /^unused\d+$/;

/** Volumes that the removal of keys destroys, by key. */
export function doomedVolumes(
  host: CheckUpdatePorts,
  vmid: number,
  config: VmConfig,
  { delete: removed, force }: Pick<ConfigUpdate, "delete" | "force">,
): ReadonlyMap<string, string> {
  const doomed = new Map<string, string>();
  for (const key of removed) {
    const text = config.values[key] ?? config.pending[key];
    if (text === undefined || !(UNUSED.test(key) || key === "vmstate" || (force && isDriveKey(key))))
      continue;
    const drive = isDriveKey(key) ? parseDrive(key, text) : undefined;
    const volid = drive?.file ?? text;
    if (drive !== undefined && isCdrom(drive, true)) continue;
    if (isOwned(host, vmid, volid)) doomed.set(key, volid);
  }
  return doomed;
}

export function checkAgainstConfig(
  host: CheckUpdatePorts,
  vmid: number,
  config: VmConfig,
  update: Pick<ConfigUpdate, "set" | "delete" | "force">,
): void {
  if (config.values["protection"] === "1") checkProtection(config, update.delete);
  for (const [key, volid] of doomedVolumes(host, vmid, config, update)) {
    if (!isNamed(config, key, volid)) continue;
    throw stillUsed(key, `unable to delete '${volid}' - volume is still in use (snapshot?)`);
  }
  checkTpm(config.values["tpmstate0"], update.set["tpmstate0"]);
}

/** Clones of a template go on reading from its disks: those stay, and so does what names them. */
export async function refuseClonedDisks(
  host: CheckUpdatePorts,
  vmid: number,
  config: VmConfig,
  update: Pick<ConfigUpdate, "delete" | "force">,
): Promise<void> {
  for (const [key, volid] of doomedVolumes(host, vmid, config, update)) {
    if (!(await hasClones(host, volid))) continue;
    throw stillUsed(key, `base volume '${parseVolumeId(volid)?.volname}' is still in use by linked clones`);
  }
}

/**
 * A disk that waits to be attached and no longer shall is kept as unused: it may hold data from before. So is one whose
 * own unused key gets another.
 */
export function keepReplaced(
  host: CheckUpdatePorts,
  vmid: number,
  config: VmConfig,
  update: Pick<ConfigUpdate, "set" | "delete" | "revert" | "force">,
): VmConfig {
  let { values } = config;
  for (const [key, text] of Object.entries(update.set)) {
    const old = UNUSED.test(key) ? values[key] : undefined;
    if (old !== undefined && driveFile(old) !== driveFile(text))
      values = addUnused({ ...values, [key]: text }, old);
  }
  for (const { key, drive } of listDrives(config.pending)) {
    const wanted = update.set[key];
    const isGiven = wanted !== undefined || update.delete.includes(key) || update.revert.includes(key);
    if (!isGiven || isCdrom(drive, true) || isCloudinitVolume(drive.file)) continue;
    const others = [wanted, values[key]].map((text) => (text === undefined ? undefined : driveFile(text)));
    if (others.includes(drive.file) || (update.force && update.delete.includes(key))) continue;
    if (isOwned(host, vmid, drive.file)) values = addUnused(values, drive.file);
  }
  return values === config.values ? config : { ...config, values };
}

function checkProtection(config: VmConfig, removed: readonly string[]): void {
  for (const key of removed) {
    const text = config.values[key] ?? config.pending[key];
    if (text === undefined) continue;
    const what = UNUSED.test(key)
      ? `unused disk '${driveFile(text) ?? text}'`
      : key === "vmstate"
        ? `vmstate '${text}'`
        : `drive '${key}'`;
    if (UNUSED.test(key) || key === "vmstate" || isDriveKey(key))
      throw conflict(`can't remove ${what} - protection mode enabled`);
  }
}

/** By another drive of the VM, or by a snapshot. */
function isNamed(config: VmConfig, key: string, volid: string): boolean {
  const sections: readonly VmValues[] = [without(config.values, key), ...Object.values(config.snapshots)];
  return sections.some((values) => listDrives(values).some(({ drive }) => drive.file === volid));
}

/** What swtpm has written under one version is nothing to the other. */
function checkTpm(before: string | undefined, after: string | undefined): void {
  const old = before === undefined ? undefined : parseDrive("tpmstate0", before);
  const next = after === undefined ? undefined : parseDrive("tpmstate0", after);
  if (old === undefined || next === undefined || old.file !== next.file) return;
  if ((old.version ?? "v1.2") !== (next.version ?? "v1.2"))
    throw conflict("cannot change TPM state version after creation");
}

function stillUsed(key: string, message: string): AppError {
  return isDriveKey(key)
    ? parameterError({ [key]: `unable to apply pending change ${key} : ${message}\n` })
    : conflict(message);
}
