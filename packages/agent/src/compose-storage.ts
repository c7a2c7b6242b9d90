// Wires the storages of one agent.
import { mkdirSync } from "node:fs";
import { given } from "@gpve/contracts/given.ts";
import { PRODUCT_VERSION } from "@gpve/contracts/version.ts";
import type { PveHandlers } from "@gpve/domain/request/handler.ts";
import type { StorageDefinition } from "@gpve/domain/storage/definition.ts";
import type { VolumeOwnership } from "@gpve/domain/storage/plugin.ts";
import type { Clock } from "@gpve/kit/clock.ts";
import type { DataDir } from "@gpve/kit/data-dir.ts";
import type { Exec } from "@gpve/kit/exec.ts";
import type { Logger } from "@gpve/kit/logger.ts";
import type { OperationEngine } from "@gpve/kit/operation/engine.ts";
import type { PathGuard } from "./infrastructure/host/path-guard.ts";
import { UploadSpool } from "./infrastructure/storage/upload-spool.ts";
import type { Records } from "@gpve/store/records/port.ts";
import { BackupCounts } from "./application/guest/backup/backup-counts.ts";
import type { AgentSettings } from "./agent-settings.ts";
import { backupTime } from "./application/storage/local-time.ts";
import { NodeStorages } from "./application/storage/node-storages.ts";
import { pullOciOperation } from "./application/storage/pull-oci.ts";
import { copyImageOperation, downloadOperation } from "./application/storage/receive-file.ts";
import { pruneBackupsOperation, removeVolumeOperation } from "./application/storage/remove-volume.ts";
import { StorageWatch } from "./application/storage/watch-storages.ts";
import { wantedUploads } from "./application/storage/wanted-uploads.ts";
import { StorageStatisticsFiles } from "./infrastructure/rrd/storage-statistics.ts";
import type { ImageTools } from "./infrastructure/image-tools/image-tools.ts";
import { storagePlugin } from "./infrastructure/storage/storage-plugins.ts";
import { ToolScans } from "./infrastructure/storage/mount/network-scans.ts";
import { HttpFetcher } from "./infrastructure/storage/fetch/http-fetcher.ts";
import { SkopeoRegistry } from "./infrastructure/storage/fetch/skopeo-registry.ts";
import { HostStorageFiles } from "./infrastructure/storage/fetch/storage-files.ts";
import { createOciHandlers } from "./presentation/pve/storage/oci-handlers.ts";
import { createScanHandlers } from "./presentation/pve/storage/scan-handlers.ts";
import { createStorageHandlers } from "./presentation/pve/storage/storage-handlers.ts";
import type { StorageRequestDeps } from "./application/storage/request/storage-requests.ts";

export interface StorageSettings {
  readonly data: DataDir;
  readonly node: string;
  readonly records: () => Records;
  readonly definitions: () => readonly StorageDefinition[];
  readonly guard: PathGuard;
  readonly volumeContent: StorageRequestDeps["volumeContent"];
  readonly ownership?: VolumeOwnership;
  readonly storageSecret: AgentSettings["storageSecret"];
  /** Through which files are fetched. */
  readonly proxy: () => string | undefined;
  /** The replication job whose copy a volume is; undefined = it is no copy. */
  readonly keeperOf?: (volid: string) => string | undefined;
  readonly engine: OperationEngine;
  readonly clock: Clock;
  readonly exec: Exec;
  readonly imageTools: ImageTools;
  readonly log: Logger;
}

export interface AgentStorage {
  readonly storages: NodeStorages;
  readonly backups: BackupCounts;
  readonly handlers: PveHandlers;
  readonly uploads: UploadSpool;
  /** After operations were recovered. */
  start(): Promise<void>;
  close(): void;
}

export function composeStorage(settings: StorageSettings): AgentStorage {
  const { data, engine, clock, log } = settings;
  const uploads = data.file("agent", "upload");
  mkdirSync(uploads, { recursive: true, mode: 0o700 });
  const storages = new NodeStorages({
    node: settings.node,
    definitions: settings.definitions,
    pluginFor: (definition, secrets) =>
      storagePlugin(definition, {
        secretOf: async (storage, name) =>
          secrets === undefined ? settings.storageSecret?.(storage, name) : secrets[name],
        secretFolder: data.file("run", "mounts"),
        exec: settings.exec,
        tools: settings.imageTools,
        backupTime,
        guard: (each) => settings.guard.requireStorage(each, "used"),
        ...given({ ownership: settings.ownership }),
      }),
    clock,
    guard: (definition) => settings.guard.requireStorage(definition, "defined"),
    onProblem: (storage, problem) => log.warn({ storage, problem }, "storage cannot be used"),
  });
  const files = new HostStorageFiles({ exec: settings.exec, tools: settings.imageTools });
  const fetcher = new HttpFetcher({ userAgent: `gpve/${PRODUCT_VERSION}`, proxy: settings.proxy });
  const statistics = new StorageStatisticsFiles(data.file("agent"));
  const backups = new BackupCounts({ node: settings.node, records: settings.records, storages, log });
  engine.register(backups.counting(removeVolumeOperation(storages, settings.keeperOf)));
  engine.register(backups.counting(pruneBackupsOperation(storages)));
  engine.register(copyImageOperation({ storages, files }));
  engine.register(downloadOperation({ storages, files, fetcher }));
  const registry = new SkopeoRegistry({
    tools: settings.imageTools,
    env: process.env,
    scratch: data.file("run", "skopeo"),
  });
  engine.register(pullOciOperation({ storages, files, registry }));

  const spool = new UploadSpool({
    directory: uploads,
    node: settings.node,
    isWanted: (path) => wantedUploads(engine.list()).has(path),
  });
  const watch = new StorageWatch({ storages, statistics, clock, log });
  return {
    storages,
    backups,
    handlers: {
      ...createScanHandlers(new ToolScans({ exec: settings.exec, secretFolder: data.file("run", "mounts") })),
      ...createOciHandlers({ storages, files, engine, registry }),
      ...createStorageHandlers({
        storages,
        files,
        fetcher,
        engine,
        clock,
        statistics,
        uploads,
        volumeContent: settings.volumeContent,
      }),
    },
    uploads: spool,
    async start() {
      await spool.sweep();
      await watch.start();
    },
    close() {
      watch.close();
      statistics.close();
    },
  };
}
