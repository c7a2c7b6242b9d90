// The order of work around a snapshot: which configuration is written when, what is undone on failure. Everything
// that touches volumes or the guest is behind SnapshotHost.
import { given } from "@gpve/contracts/given.ts";
import { AppError, messageOf } from "@gpve/contracts/errors.ts";
import { isCdrom, listDrives } from "../config/drive.ts";
import type { Drive } from "../config/property-types.ts";
import {
  beginRollback,
  checkRollbackPossible,
  checkSnapshotPossible,
  checkStateSavable,
  commitSnapshot,
  finishRollback,
  finishSnapshotDelete,
  lockForSnapshotDelete,
  markSnapshotDeleting,
  prepareSnapshot,
  removeSnapshotDrive,
  requireSnapshot,
  rollbackTarget,
  strayCloudinit,
  type SavedState,
  type StartFromState,
} from "./snapshot.ts";
import type { VmConfig, VmValues } from "../config/vm-config.ts";

export interface SnapshotHost {
  readonly vmid: number;
  load(): Promise<VmConfig>;
  /** Reads, changes and writes in one transaction. */
  update(change: (config: VmConfig) => VmConfig): Promise<VmConfig>;
  /** Unix seconds. */
  now(): number;
  newUuid(): string;
  warn(message: string): void;
  isRunning(): Promise<boolean>;
  hasSnapshotFeature(config: VmConfig): Promise<boolean>;
  activateStorages(storages: readonly string[]): Promise<void>;
  /** Makes the volume for the RAM and says what runs; the RAM itself is written by `saveState`. */
  allocateState(config: VmConfig, name: string): Promise<SavedState>;
  freeVolume(volid: string): Promise<void>;
  /** Whether the guest's file systems must and can be quiesced. */
  wantsFreeze(config: VmConfig): Promise<boolean>;
  freeze(): Promise<void>;
  thaw(): Promise<void>;
  /** Holds the guest still, saving its RAM when the snapshot has a vmstate. */
  beginState(snapshot: VmValues): Promise<void>;
  /** Every disk has its snapshot: the rest of the RAM is written. The snapshot fails when this does. */
  finishState?(snapshot: VmValues): Promise<void>;
  endState(snapshot: VmValues): Promise<void>;
  snapshotVolume(key: string, drive: Drive, name: string): Promise<void>;
  deleteVolumeSnapshot(key: string, drive: Drive, name: string): Promise<void>;
  /** Throws when the volume cannot go back to the snapshot. */
  checkVolumeRollback(key: string, drive: Drive, name: string): Promise<void>;
  rollbackVolume(key: string, drive: Drive, name: string): Promise<void>;
  stop(): Promise<void>;
  start(state: StartFromState): Promise<void>;
}

export interface CreateSnapshotRequest {
  readonly name: string;
  readonly description?: string;
  readonly withState?: boolean;
}

export async function createSnapshot(host: SnapshotHost, request: CreateSnapshotRequest): Promise<void> {
  const { name } = request;
  const config = await prepare(host, request);
  const snapshot = requireSnapshot(config, name);
  const running = await host.isRunning();
  const freeze = running && snapshot["vmstate"] === undefined && (await host.wantsFreeze(config));
  const done = new Set<string>();
  const settle = async (): Promise<void> => {
    if (!running) return;
    await attempt(host, () => host.endState(snapshot));
    if (freeze) await attempt(host, () => host.thaw());
  };
  try {
    await host.activateStorages(storagesOf(snapshot, false));
    if (freeze) await attempt(host, () => host.freeze());
    if (running) await host.beginState(snapshot);
    for (const { key, drive } of disks(snapshot)) {
      await host.snapshotVolume(key, drive, name);
      done.add(key);
    }
    if (running) await host.finishState?.(snapshot);
  } catch (error) {
    await settle();
    await attempt(host, () => deleteSnapshot(host, name, { force: true, created: done }));
    throw error;
  }
  await settle();
  await host.update((current) => commitSnapshot(current, name));
}

/** Checks, keeps room for the RAM, and records the snapshot as being made. */
export async function prepare(host: SnapshotHost, request: CreateSnapshotRequest): Promise<VmConfig> {
  const config = await host.load();
  if (request.withState === true) checkStateSavable(config.values);
  checkSnapshotPossible(config, request.name, true);
  checkSnapshotPossible(config, request.name, await host.hasSnapshotFeature(config));
  const withState = request.withState === true && (await host.isRunning());
  const state = withState ? await host.allocateState(config, request.name) : undefined;
  try {
    return await host.update((current) =>
      prepareSnapshot(current, {
        name: request.name,
        snaptime: host.now(),
        ...given({ description: request.description, state }),
      }),
    );
  } catch (error) {
    if (state !== undefined) await attempt(host, () => host.freeVolume(state.vmstate));
    throw error;
  }
}

/** `created` is given when a failed creation is cleaned up: the volumes that got their snapshot. */
export async function deleteSnapshot(
  host: SnapshotHost,
  name: string,
  options: { readonly force?: boolean; readonly created?: ReadonlySet<string> } = {},
): Promise<void> {
  const { created, force = false } = options;
  const expected = created === undefined ? "snapshot-delete" : "snapshot";
  const snapshot = requireSnapshot(await host.load(), name);
  if (created === undefined) {
    await host.activateStorages(storagesOf(snapshot, true));
    await host.update((config) => lockForSnapshotDelete(config, name));
  }
  await host.update((config) => markSnapshotDeleting(config, name, expected));
  const step = async (work: () => Promise<void>): Promise<boolean> => {
    if (force) return attempt(host, work);
    await work();
    return true;
  };
  const forget = async (key: string): Promise<void> => {
    if (!force) await host.update((config) => removeSnapshotDrive(config, name, key, expected));
  };
  const vmstate = snapshot["vmstate"];
  if (vmstate !== undefined) {
    await step(() => host.freeVolume(vmstate));
    await forget("vmstate");
  }
  const unused: string[] = [];
  for (const { key, drive } of disks(snapshot)) {
    if (created === undefined || created.has(key)) {
      const gone = await step(() => host.deleteVolumeSnapshot(key, drive, name));
      if (gone) unused.push(drive.file);
    }
    await forget(key);
  }
  await host.update((config) => finishSnapshotDelete(config, name, { unused, expected }));
}

export async function rollbackSnapshot(host: SnapshotHost, name: string): Promise<void> {
  const before = await host.load();
  const snapshot = rollbackTarget(before, name);
  await host.activateStorages(storagesOf(snapshot, true));
  for (const { key, drive } of disks(snapshot)) await host.checkVolumeRollback(key, drive, name);
  checkRollbackPossible(before, name);
  await host.stop();
  await requireStopped(host);
  await host.update((config) => beginRollback(config, name));
  for (const { key, drive } of disks(snapshot)) await host.rollbackVolume(key, drive, name);
  await requireStopped(host);
  // While the configuration still names them: cut off in between, the next try finds them again.
  for (const volid of strayCloudinit(await host.load())) await attempt(host, () => host.freeVolume(volid));
  let start: StartFromState | undefined;
  await host.update((config) => {
    const result = finishRollback(config, name, { newUuid: () => host.newUuid() });
    start = result.start;
    return result.config;
  });
  if (start !== undefined) await host.start(start);
}

async function requireStopped(host: SnapshotHost): Promise<void> {
  if (await host.isRunning())
    throw new AppError("object.conflict", `unable to rollback vm ${host.vmid}: vm is running`, {
      pveStatus: 500,
    });
}

function disks(values: VmValues): { readonly key: string; readonly drive: Drive }[] {
  return listDrives(values).filter(({ drive }) => !isCdrom(drive));
}

function storagesOf(values: VmValues, withState: boolean): string[] {
  const volumes = disks(values).map(({ drive }) => drive.file);
  if (withState && values["vmstate"] !== undefined) volumes.push(values["vmstate"]);
  const storages = volumes.flatMap((volid) => /^([^/:]+):/.exec(volid)?.[1] ?? []);
  return [...new Set(storages)].sort();
}

/** Best effort: a failure is told, not thrown. */
async function attempt(host: SnapshotHost, work: () => Promise<void>): Promise<boolean> {
  try {
    await work();
    return true;
  } catch (error) {
    host.warn(messageOf(error));
    return false;
  }
}
