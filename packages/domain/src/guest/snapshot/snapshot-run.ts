// The order of work around a snapshot: which configuration is written when, what is undone on failure. Everything
// that touches volumes or the guest is behind SnapshotHost.
import { conflict } from "../../request/failures.ts";
import { given } from "@gpve/contracts/given.ts";
import { messageOf } from "@gpve/contracts/errors.ts";
import {
  beginRollback,
  checkRollbackPossible,
  checkSnapshotPossible,
  commitSnapshot,
  finishRollback,
  finishSnapshotDelete,
  lockForSnapshotDelete,
  markSnapshotDeleting,
  prepareSnapshot,
  removeSnapshotVolume,
  requireSnapshot,
  rollbackTarget,
} from "./snapshot.ts";
import type { GuestConfig, GuestValues } from "../guest-config.ts";
import type { GuestVolume, SavedState, SnapshotRules } from "./snapshot-rules.ts";

/** `Start`: how a guest is started that goes on from saved RAM. */
export interface SnapshotHost<Start = unknown> {
  readonly vmid: number;
  readonly rules: SnapshotRules<Start>;
  load(): Promise<GuestConfig>;
  /** Reads, changes and writes in one transaction. */
  update(change: (config: GuestConfig) => GuestConfig): Promise<GuestConfig>;
  /** Unix seconds. */
  now(): number;
  newUuid(): string;
  warn(message: string): void;
  isRunning(): Promise<boolean>;
  hasSnapshotFeature(config: GuestConfig): Promise<boolean>;
  activateStorages(storages: readonly string[]): Promise<void>;
  /** Makes the volume for the RAM and says what runs; the RAM itself is written by `saveState`. */
  allocateState(config: GuestConfig, name: string): Promise<SavedState>;
  freeVolume(volid: string): Promise<void>;
  /** Whether the guest's file systems must and can be quiesced. */
  wantsFreeze(config: GuestConfig): Promise<boolean>;
  freeze(): Promise<void>;
  thaw(): Promise<void>;
  /** Holds the guest still, saving its RAM when the snapshot has a vmstate. */
  beginState(snapshot: GuestValues): Promise<void>;
  /** Every disk has its snapshot: the rest of the RAM is written. The snapshot fails when this does. */
  finishState?(snapshot: GuestValues): Promise<void>;
  endState(snapshot: GuestValues): Promise<void>;
  snapshotVolume(volume: GuestVolume, name: string): Promise<void>;
  deleteVolumeSnapshot(volume: GuestVolume, name: string): Promise<void>;
  /** Throws when the volume cannot go back to the snapshot. */
  checkVolumeRollback(volume: GuestVolume, name: string): Promise<void>;
  rollbackVolume(volume: GuestVolume, name: string): Promise<void>;
  stop(): Promise<void>;
  start(state: Start): Promise<void>;
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
    await host.activateStorages(storagesOf(host, snapshot, false));
    if (freeze) await attempt(host, () => host.freeze());
    if (running) await host.beginState(snapshot);
    for (const volume of host.rules.volumes(snapshot)) {
      await host.snapshotVolume(volume, name);
      done.add(volume.key);
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
export async function prepare(host: SnapshotHost, request: CreateSnapshotRequest): Promise<GuestConfig> {
  const config = await host.load();
  if (request.withState === true) host.rules.checkStateSavable(config.values);
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
    await host.activateStorages(storagesOf(host, snapshot, true));
    await host.update((config) => lockForSnapshotDelete(config, name));
  }
  await host.update((config) => markSnapshotDeleting(config, name, expected));
  const step = async (work: () => Promise<void>): Promise<boolean> => {
    if (force) return attempt(host, work);
    await work();
    return true;
  };
  const forget = async (key: string): Promise<void> => {
    if (!force) await host.update((config) => removeSnapshotVolume(host.rules, config, name, key, expected));
  };
  const vmstate = snapshot["vmstate"];
  if (vmstate !== undefined) {
    await step(() => host.freeVolume(vmstate));
    await forget("vmstate");
  }
  const unused: string[] = [];
  for (const volume of host.rules.volumes(snapshot)) {
    if (created === undefined || created.has(volume.key)) {
      const gone = await step(() => host.deleteVolumeSnapshot(volume, name));
      if (gone) unused.push(volume.volid);
    }
    await forget(volume.key);
  }
  await host.update((config) => finishSnapshotDelete(host.rules, config, name, { unused, expected }));
}

export async function rollbackSnapshot<Start>(host: SnapshotHost<Start>, name: string): Promise<void> {
  const before = await host.load();
  const snapshot = rollbackTarget(before, name);
  await host.activateStorages(storagesOf(host, snapshot, true));
  const volumes = host.rules.volumes(snapshot);
  for (const volume of volumes) await host.checkVolumeRollback(volume, name);
  checkRollbackPossible(before, name);
  await host.stop();
  await requireStopped(host);
  await host.update((config) => beginRollback(config, name));
  for (const volume of volumes) await host.rollbackVolume(volume, name);
  await requireStopped(host);
  // While the configuration still names them: cut off in between, the next try finds them again.
  for (const volid of host.rules.madeAnew(await host.load()))
    await attempt(host, () => host.freeVolume(volid));
  let start: Start | undefined;
  await host.update((config) => {
    const result = finishRollback(host.rules, config, name, { newUuid: () => host.newUuid() });
    start = result.start;
    return result.config;
  });
  if (start !== undefined) await host.start(start);
}

async function requireStopped(host: SnapshotHost): Promise<void> {
  if (await host.isRunning()) throw conflict(`unable to rollback vm ${host.vmid}: vm is running`);
}

function storagesOf({ rules }: SnapshotHost, values: GuestValues, withState: boolean): string[] {
  const volumes = rules.volumes(values).map(({ volid }) => volid);
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
