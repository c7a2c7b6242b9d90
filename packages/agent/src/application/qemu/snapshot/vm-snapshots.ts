// Snapshots on this node: what snapshot-run.ts needs done to volumes and to the running guest.
import { missing } from "@gpve/domain/request/failures.ts";
import type { QemuProcess } from "@gpve/domain/vm/qemu-processes.ts";
import { isAppError, messageOf } from "@gpve/contracts/errors.ts";
import { isInQemu, listDrives } from "@gpve/domain/vm/config/drive.ts";
import {
  vmSnapshotRules,
  type SavedVmState,
  type StartFromState,
} from "@gpve/domain/vm/snapshot/vm-snapshot-rules.ts";
import type { GuestVolume } from "@gpve/domain/guest/snapshot/snapshot-rules.ts";
import type { GuestSnapshots, SnapshotTask } from "../../guest/snapshot-operations.ts";
import type { BackupChains } from "@gpve/domain/backup/backup-chain.ts";
import type { SnapshotHost } from "@gpve/domain/guest/snapshot/snapshot-run.ts";
import type { VmConfig, VmValues } from "@gpve/domain/vm/config/vm-config.ts";
import { ignore } from "@gpve/kit/background.ts";
import { presentTop } from "../disk/top-node.ts";
import { hasFeatureOnAll } from "../disk/volume-features.ts";
import { freeVolume } from "../config/free-volumes.ts";
import {
  freezeFilesystems,
  thawFilesystems,
  wantsFreeze,
  type UseGuestAgentPorts,
} from "../agent/use-guest-agent.ts";
import { letGo } from "./hold-guest.ts";
import { cancelMigration, continueFromRam, loadRam, RamSave } from "./ram-state.ts";
import { SAVED_RAM, allocateRamVolume, stateStorage, type RamVolumePorts } from "./ram-volume.ts";
import { requireRunningVm, runningVm } from "../running-vm.ts";
import { attachedFile, volumeOf } from "../../guest/guest-storages.ts";
import type { Clock } from "@gpve/kit/clock.ts";
import type { Ids } from "@gpve/domain/guest/ids.ts";
import type { VmStarter } from "../start/vm-starter.ts";
import type { RamStreams } from "@gpve/domain/vm/snapshot/ram-streams.ts";

export interface SnapshotWorkPorts extends RamVolumePorts, UseGuestAgentPorts {
  readonly clock: Clock;
  readonly ids: Ids;
  readonly starter: VmStarter;
  readonly ram: RamStreams;
}

export interface VmSnapshotPorts extends SnapshotWorkPorts {
  readonly chains: BackupChains;
}

/** VMs where snapshots are made, deleted and gone back to. */
export function vmSnapshots(host: VmSnapshotPorts): GuestSnapshots<StartFromState> {
  return {
    operations: { create: "qmsnapshot", delete: "qmdelsnapshot", rollback: "qmrollback" },
    configs: host.configs,
    work: (vmid, task) => new SnapshotWork(host, vmid, task),
    goOn: (vmid, resumes, signal) => goOnAfterCrash(host, vmid, resumes, signal),
    // Before the disks change: whatever happens next, no backup builds on what was.
    beforeRollback: (vmid, name) => host.chains.drop(vmid, `the VM was rolled back to snapshot '${name}'`),
    isRunning: (vmid) => runningVm(host, vmid) !== undefined,
    start: async (vmid, task) => {
      await host.starter.start({ vmid }, task);
    },
  };
}

class SnapshotWork implements SnapshotHost<StartFromState> {
  readonly rules = vmSnapshotRules;
  readonly vmid: number;
  readonly #host: SnapshotWorkPorts;
  readonly #task: SnapshotTask;
  #save: RamSave | undefined;
  #resumes = false;

  constructor(host: SnapshotWorkPorts, vmid: number, task: SnapshotTask) {
    this.#host = host;
    this.vmid = vmid;
    this.#task = task;
  }

  async load(): Promise<VmConfig> {
    return this.#host.configs.get(this.vmid);
  }

  async update(change: (config: VmConfig) => VmConfig): Promise<VmConfig> {
    // A refusal must come before anything is noted as begun.
    change(this.#host.configs.get(this.vmid));
    await this.#task.begun({});
    return this.#host.configs.change(this.vmid, change);
  }

  now(): number {
    return Math.floor(this.#host.clock.now() / 1000);
  }

  newUuid(): string {
    return this.#host.ids.newUuid();
  }

  warn(message: string): void {
    this.#task.warn(message);
  }

  async isRunning(): Promise<boolean> {
    return runningVm(this.#host, this.vmid) !== undefined;
  }

  async hasSnapshotFeature(config: VmConfig): Promise<boolean> {
    return hasFeatureOnAll(this.#host, config.values, "snapshot");
  }

  async activateStorages(storages: readonly string[]): Promise<void> {
    for (const storage of storages) await this.#host.storages.plugin(storage).activate();
  }

  allocateState(config: VmConfig, name: string): Promise<SavedVmState> {
    const { values } = config;
    return allocateRamVolume(
      this.#host,
      values,
      { vmid: this.vmid, storage: stateStorage(this.#host.storages, values), name },
      { signal: this.#task.signal, begun: (vmstate) => this.#task.begun({ vmstate }) },
    );
  }

  async freeVolume(volid: string): Promise<void> {
    await freeVolume(this.#host, volid, this.#task.log);
  }

  wantsFreeze(): Promise<boolean> {
    return wantsFreeze(this.#host, this.vmid, this.#task.signal);
  }

  async freeze(): Promise<void> {
    await freezeFilesystems(this.#host, this.vmid, this.#task.signal);
  }

  async thaw(): Promise<void> {
    await thawFilesystems(this.#host, this.vmid);
  }

  async beginState(snapshot: VmValues): Promise<void> {
    const process = requireRunningVm(this.#host, this.vmid);
    const { status } = await process.qmp.execute("query-status");
    this.#resumes = status === "running";
    await this.#task.begun({ resumes: this.#resumes });
    const vmstate = snapshot["vmstate"];
    if (vmstate === undefined) {
      if (this.#resumes) await process.qmp.execute("stop");
      return;
    }
    this.#task.log(`saving VM state to '${vmstate}'`);
    const file = await attachedFile(this.#host, vmstate, SAVED_RAM);
    this.#save = await RamSave.begin(this.#host, process, file, this.#task.signal);
  }

  async finishState(): Promise<void> {
    await this.#save?.finish();
    this.#save = undefined;
  }

  async endState(): Promise<void> {
    await this.#save?.cancel();
    this.#save = undefined;
    const process = runningVm(this.#host, this.vmid);
    if (process !== undefined) await letGo(process, this.#resumes);
  }

  async snapshotVolume({ key, volid }: GuestVolume, name: string): Promise<void> {
    this.#task.log(`snapshotting '${key}' (${volid})`);
    const { plugin, volname } = volumeOf(this.#host, volid);
    const process = this.#userOf(key);
    if (process !== undefined && plugin.liveWork(volname) === "qemu") {
      const device = await presentTop(process, key);
      await process.qmp.execute("blockdev-snapshot-internal-sync", { device, name });
      return;
    }
    await plugin.snapshot(volname, name, this.#task);
  }

  /** One that is not there is no error: the work may be a second try. */
  async deleteVolumeSnapshot({ volid }: GuestVolume, name: string): Promise<void> {
    const present = attachedKey(this.#host, this.vmid, volid);
    const process = present === undefined ? undefined : this.#userOf(present);
    const { plugin, volname } = volumeOf(this.#host, volid);
    const isQemus = plugin.liveWork(volname) === "qemu";
    if (isQemus && process !== undefined && present !== undefined) {
      try {
        await process.qmp.execute("blockdev-snapshot-delete-internal-sync", {
          device: await presentTop(process, present),
          name,
        });
      } catch (err) {
        if (!isAppError(err, "qmp.failed") || !/does not exist/.test(messageOf(err))) throw err;
      }
      return;
    }
    const known = await plugin.snapshots(volname);
    if (known.some((each) => each.name === name)) await plugin.deleteSnapshot(volname, name, this.#task);
  }

  async checkVolumeRollback({ volid }: GuestVolume, name: string): Promise<void> {
    const { plugin, volname } = volumeOf(this.#host, volid);
    const known = await plugin.snapshots(volname);
    if (known.some((each) => each.name === name)) return;
    throw missing(`volume '${volid}' has no snapshot '${name}'`);
  }

  async rollbackVolume({ volid }: GuestVolume, name: string): Promise<void> {
    const { plugin, volname } = volumeOf(this.#host, volid);
    this.#task.log(`rolling back '${volid}'`);
    await plugin.rollback(volname, name, this.#task);
  }

  async stop(): Promise<void> {
    await runningVm(this.#host, this.vmid)?.stop({ signal: this.#task.signal });
  }

  async start(state: StartFromState): Promise<void> {
    await volumeOf(this.#host, state.vmstate).plugin.activate();
    await this.#host.starter.start({ vmid: this.vmid, from: state }, this.#task);
    const process = requireRunningVm(this.#host, this.vmid);
    try {
      const file = await attachedFile(this.#host, state.vmstate, SAVED_RAM);
      await loadRam(this.#host, process, file, this.#task.signal);
      await continueFromRam(process, this.#task.signal);
    } catch (err) {
      await process.kill();
      throw err;
    }
  }

  /** The guest, where its QEMU has this drive open. */
  #userOf(key: string): QemuProcess | undefined {
    const { values } = this.#host.configs.get(this.vmid);
    return isInQemu(values, key) ? runningVm(this.#host, this.vmid) : undefined;
  }
}

/** A guest that a crash of ours left standing still, or its file systems frozen, goes on as it was. */
async function goOnAfterCrash(
  host: SnapshotWorkPorts,
  vmid: number,
  resumes: boolean,
  signal: AbortSignal,
): Promise<void> {
  const process = runningVm(host, vmid);
  if (process === undefined) return;
  await cancelMigration(host, process);
  await letGo(process, resumes);
  if (await wantsFreeze(host, vmid, signal))
    await thawFilesystems(host, vmid).catch((err: unknown) => ignore(err, "it may never have been frozen"));
}

/** The key under which the present configuration has this volume. */
function attachedKey(host: SnapshotWorkPorts, vmid: number, volid: string): string | undefined {
  return listDrives(host.configs.get(vmid).values).find(({ drive }) => drive.file === volid)?.key;
}
