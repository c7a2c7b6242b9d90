// Wires backup, restore and upgrade of virtual clusters.
import type { ClusterSaves } from "@gpve/domain/vcluster/backup/cluster-saves.ts";
import type { KeptCluster } from "@gpve/domain/vcluster/ports.ts";
import type { Clock } from "@gpve/kit/clock.ts";
import type { Exec } from "@gpve/kit/exec.ts";
import type { OperationEngine } from "@gpve/kit/operation/engine.ts";
import type { Store } from "@gpve/store/port.ts";
import type { BackupCounts } from "./application/guest/backup/backup-counts.ts";
import type { NodeStorages } from "./application/storage/node-storages.ts";
import { ArchivePlaces } from "./application/vcluster/backup/archive-places.ts";
import { backupClusterOperation } from "./application/vcluster/backup/backup-operation.ts";
import {
  type RestoreOverDeps,
  restoreOverOperation,
} from "./application/vcluster/backup/restore-over-operation.ts";
import {
  type UpgradeDeps,
  upgradeClusterOperation,
} from "./application/vcluster/upgrade/upgrade-operation.ts";
import { FileClusterSaves } from "./infrastructure/vcluster/backup/file-cluster-saves.ts";
import { withStore } from "./infrastructure/vcluster/backup/with-store.ts";
import type { StoreProcess } from "./infrastructure/vcluster/store-process.ts";

export interface ComposedClusterSaves {
  readonly places: ArchivePlaces;
  readonly saves: ClusterSaves;
  readonly register: (
    engine: OperationEngine,
    rest: Omit<RestoreOverDeps, "saves" | "places"> & Omit<UpgradeDeps, "saves">,
  ) => void;
}

export function composeClusterSaves(parts: {
  readonly folder: string;
  readonly exec: Exec;
  readonly clock: Clock;
  readonly stores: StoreProcess;
  readonly openEtcd: (cluster: KeptCluster) => Store;
  readonly storages: NodeStorages;
  readonly backups: Pick<BackupCounts, "counting">;
}): ComposedClusterSaves {
  const { folder, exec, clock } = parts;
  const places = new ArchivePlaces(parts.storages);
  const saves = new FileClusterSaves({
    folder,
    exec,
    clock,
    withStore: withStore(parts.stores, parts.openEtcd),
  });
  return {
    places,
    saves,
    register: (engine, rest) => {
      engine.register(parts.backups.counting(backupClusterOperation({ phases: rest.phases, saves, places })));
      engine.register(restoreOverOperation({ ...rest, saves, places }));
      engine.register(upgradeClusterOperation({ ...rest, saves }));
    },
  };
}
