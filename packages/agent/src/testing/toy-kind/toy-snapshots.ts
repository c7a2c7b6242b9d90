// Snapshots of toys: their one volume, and nothing to hold still.
import { AppError } from "@gpve/contracts/errors.ts";
import type { SnapshotRules } from "@gpve/domain/guest/snapshot/snapshot-rules.ts";
import type { SnapshotHost } from "@gpve/domain/guest/snapshot/snapshot-run.ts";
import type { GuestSnapshots, SnapshotTask } from "../../application/guest/snapshot-operations.ts";
import { volumeOf } from "../../application/guest/guest-storages.ts";
import { runningToy, startToy, type ToyPorts } from "./toy-operations.ts";

const disks = (values: Readonly<Record<string, string>>): readonly string[] =>
  values["disk"] === undefined ? [] : [values["disk"]];

const rules: SnapshotRules<never> = {
  checkStateSavable: () => {
    throw new AppError("feature.unsupported", "a toy has no RAM worth saving: leave vmstate out");
  },
  volumes: (values) => disks(values).map((volid) => ({ key: "disk", volid })),
  named: disks,
  kept: disks,
  addUnused: (values, volid) => ({ ...values, unused: volid }),
  madeAnew: () => [],
  goBack: ({ values }) => ({ values, start: undefined }),
};

export function toySnapshots(host: ToyPorts & { readonly now: () => number }): GuestSnapshots<never> {
  const { configs } = host;
  const nothing = async (): Promise<void> => undefined;
  const work = (vmid: number, task: SnapshotTask): SnapshotHost<never> => ({
    vmid,
    rules,
    load: async () => configs.get(vmid),
    update: async (change) => {
      change(configs.get(vmid));
      await task.begun({});
      return configs.change(vmid, change);
    },
    now: host.now,
    newUuid: () => "",
    warn: task.warn,
    isRunning: async () => runningToy(host, vmid) !== undefined,
    hasSnapshotFeature: async ({ values }) =>
      disks(values).every((volid) => {
        const { plugin, volname } = volumeOf(host, volid);
        return plugin.has("snapshot", volname);
      }),
    activateStorages: async (storages) => {
      for (const storage of storages) await host.storages.plugin(storage).activate();
    },
    allocateState: () => Promise.reject(new AppError("internal.error", "a toy saves no RAM")),
    freeVolume: async (volid) => {
      const { plugin, volname } = volumeOf(host, volid);
      await plugin.free(volname);
    },
    wantsFreeze: async () => false,
    freeze: nothing,
    thaw: nothing,
    beginState: nothing,
    endState: nothing,
    snapshotVolume: async ({ volid }, name) => {
      const { plugin, volname } = volumeOf(host, volid);
      await plugin.snapshot(volname, name, task);
    },
    deleteVolumeSnapshot: async ({ volid }, name) => {
      const { plugin, volname } = volumeOf(host, volid);
      const known = await plugin.snapshots(volname);
      if (known.some((each) => each.name === name)) await plugin.deleteSnapshot(volname, name, task);
    },
    checkVolumeRollback: nothing,
    rollbackVolume: async ({ volid }, name) => {
      const { plugin, volname } = volumeOf(host, volid);
      await plugin.rollback(volname, name, task);
    },
    stop: async () => {
      await runningToy(host, vmid)?.stop({ signal: task.signal });
    },
    start: nothing,
  });
  return {
    operations: { create: "toysnapshot", delete: "toydelsnapshot", rollback: "toyrollback" },
    configs,
    work,
    goOn: nothing,
    beforeRollback: nothing,
    isRunning: (vmid) => runningToy(host, vmid) !== undefined,
    start: (vmid) => startToy(host, vmid),
  };
}
