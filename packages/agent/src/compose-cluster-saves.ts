// Wires backup, restore and upgrade of virtual clusters.
import { randomUUID } from "node:crypto";
import type { GuestMove } from "@gpve/domain/guest/guest-move.ts";
import type { ClusterSaves } from "@gpve/domain/vcluster/backup/cluster-saves.ts";
import type { VolumePeers, VolumeSource } from "@gpve/domain/vcluster/backup/cluster-volumes.ts";
import type { Clock } from "@gpve/kit/clock.ts";
import type { Logger } from "@gpve/kit/logger.ts";
import type { Exec } from "@gpve/kit/exec.ts";
import type { BackupCounts } from "./application/guest/backup/backup-counts.ts";
import type { NodeStorages } from "./application/storage/node-storages.ts";
import { ArchivePlaces } from "./application/vcluster/backup/archive-places.ts";
import { backupClusterOperation } from "./application/vcluster/backup/backup-operation.ts";
import {
  type RestoreOverDeps,
  restoreOverOperation,
} from "./application/vcluster/backup/restore-over-operation.ts";
import type { Register } from "./application/vcluster/plain-operation.ts";
import {
  type UpgradeDeps,
  upgradeClusterOperation,
} from "./application/vcluster/upgrade/upgrade-operation.ts";
import { FileClusterSaves } from "./infrastructure/vcluster/backup/file-cluster-saves.ts";
import { FileVolumeParcels } from "./infrastructure/vcluster/backup/volume-parcels.ts";
import { type OwnEtcds, withStore } from "./infrastructure/vcluster/backup/with-store.ts";
import type { StoreProcess } from "./infrastructure/vcluster/store-process.ts";

export interface ComposedClusterSaves {
  readonly places: ArchivePlaces;
  readonly saves: ClusterSaves;
  /** Gives volumes of workers to the node that makes a backup. */
  readonly volumes: VolumeSource;
  readonly registerSaves: (
    register: Register,
    rest: Omit<RestoreOverDeps, "saves" | "places"> & Omit<UpgradeDeps, "saves">,
  ) => void;
}

export function composeClusterSaves(parts: {
  readonly folder: string;
  readonly exec: Exec;
  readonly clock: Clock;
  readonly stores: StoreProcess;
  readonly etcds: OwnEtcds;
  readonly volumeStorage: (storage: string) => Promise<string>;
  readonly storages: NodeStorages;
  readonly log: Logger;
  readonly backups: Pick<BackupCounts, "counting">;
  readonly others: {
    readonly peers: VolumePeers;
    readonly findMove: (moveId: string) => Promise<GuestMove | undefined>;
  };
}): ComposedClusterSaves {
  const { folder, exec, clock } = parts;
  const places = new ArchivePlaces(parts.storages, parts.log);
  const saves = new FileClusterSaves({
    folder,
    exec,
    clock,
    volumeStorage: parts.volumeStorage,
    withStore: withStore(parts.stores, parts.etcds),
  });
  return {
    places,
    saves,
    volumes: new FileVolumeParcels({ folder, exec, newId: randomUUID }),
    registerSaves: (register, rest) => {
      register(
        parts.backups.counting(
          backupClusterOperation({ phases: rest.phases, saves, places, ...parts.others }),
        ),
      );
      register(restoreOverOperation({ ...rest, saves, places }));
      register(upgradeClusterOperation({ ...rest, saves }));
    },
  };
}
