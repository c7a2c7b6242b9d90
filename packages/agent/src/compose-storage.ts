// Wires the storages of one agent.
import { mkdirSync, readdirSync, rmSync } from "node:fs";
import { join } from "node:path";
import { given } from "@gpve/contracts/given.ts";
import { PRODUCT_VERSION } from "@gpve/contracts/version.ts";
import type { PveHandlers } from "@gpve/domain/request/handler.ts";
import type { StorageDefinition } from "@gpve/domain/storage/definition.ts";
import type { VolumeOwnership } from "@gpve/domain/storage/plugin.ts";
import { background } from "@gpve/kit/background.ts";
import type { Clock } from "@gpve/kit/clock.ts";
import type { DataDir } from "@gpve/kit/data-dir.ts";
import type { Exec } from "@gpve/kit/exec.ts";
import type { Logger } from "@gpve/kit/logger.ts";
import type { OperationEngine } from "@gpve/kit/operation/engine.ts";
import { isEnded } from "@gpve/kit/operation/states.ts";
import type { PathGuard } from "./infrastructure/host/path-guard.ts";
import { UploadSpool } from "./infrastructure/storage/upload-spool.ts";
import { backupTime } from "./application/storage/local-time.ts";
import { NodeStorages } from "./application/storage/node-storages.ts";
import { pullOciOperation } from "./application/storage/pull-oci.ts";
import {
  COPY_IMAGE,
  copyImageOperation,
  downloadOperation,
  type UploadArgs,
} from "./application/storage/receive-file.ts";
import { pruneBackupsOperation, removeVolumeOperation } from "./application/storage/remove-volume.ts";
import { StorageStatisticsFiles } from "./infrastructure/rrd/storage-statistics.ts";
import type { ImageTools } from "./infrastructure/image-tools/image-tools.ts";
import { storagePlugin } from "./infrastructure/storage/storage-plugins.ts";
import { HttpFetcher } from "./infrastructure/storage/fetch/http-fetcher.ts";
import { SkopeoRegistry } from "./infrastructure/storage/fetch/skopeo-registry.ts";
import { HostStorageFiles } from "./infrastructure/storage/fetch/storage-files.ts";
import { createOciHandlers } from "./presentation/pve/storage/oci-handlers.ts";
import { createStorageHandlers } from "./presentation/pve/storage/storage-handlers.ts";
import type { StorageHandlerDeps } from "./presentation/pve/storage/storage-requests.ts";

export interface StorageSettings {
  readonly data: DataDir;
  readonly node: string;
  readonly definitions: () => readonly StorageDefinition[];
  readonly guard: PathGuard;
  readonly volumeContent: StorageHandlerDeps["volumeContent"];
  readonly ownership?: VolumeOwnership;
  /** Through which files are fetched. */
  readonly proxy: () => string | undefined;
  readonly engine: OperationEngine;
  readonly clock: Clock;
  readonly exec: Exec;
  readonly imageTools: ImageTools;
  readonly log: Logger;
}

export interface AgentStorage {
  readonly storages: NodeStorages;
  readonly handlers: PveHandlers;
  readonly uploads: UploadSpool;
  /** After operations were recovered. */
  start(): Promise<void>;
  close(): void;
}

const SAMPLE_EVERY_MS = 10_000;

export function composeStorage(settings: StorageSettings): AgentStorage {
  const { data, engine, clock, log } = settings;
  const uploads = data.file("agent", "upload");
  mkdirSync(uploads, { recursive: true, mode: 0o700 });
  const storages = new NodeStorages({
    node: settings.node,
    definitions: settings.definitions,
    pluginFor: (definition) =>
      storagePlugin(definition, {
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
  engine.register(removeVolumeOperation(storages));
  engine.register(pruneBackupsOperation(storages));
  engine.register(copyImageOperation({ storages, files }));
  engine.register(downloadOperation({ storages, files, fetcher }));
  const registry = new SkopeoRegistry({
    tools: settings.imageTools,
    env: process.env,
    scratch: data.file("run", "skopeo"),
  });
  engine.register(pullOciOperation({ storages, files, registry }));

  let next = (): void => undefined;
  const look = async (): Promise<void> => {
    await storages.refresh();
    statistics.sample(clock.now(), storages.runtimes());
  };
  const keepLooking = (): void => {
    background(log, "looking at storages", look());
    next = clock.after(SAMPLE_EVERY_MS, keepLooking);
  };
  return {
    storages,
    handlers: {
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
    uploads: new UploadSpool({
      directory: uploads,
      node: settings.node,
      isWanted: (path) => wantedUploads(engine).has(path),
    }),
    async start() {
      removeOrphans(uploads, engine);
      await look();
      next = clock.after(SAMPLE_EVERY_MS, keepLooking);
    },
    close() {
      next();
      statistics.close();
    },
  };
}

/** Bodies that no unfinished operation waits for: their upload was cut off by a crash. */
function removeOrphans(uploads: string, engine: OperationEngine): void {
  const wanted = wantedUploads(engine);
  for (const name of readdirSync(uploads)) {
    const path = join(uploads, name);
    if (!wanted.has(path)) rmSync(path, { force: true });
  }
}

function wantedUploads(engine: OperationEngine): ReadonlySet<string> {
  const wanted = new Set<string>();
  for (const { type, state, args } of engine.list()) {
    if (type === COPY_IMAGE && !isEnded(state)) wanted.add((args as UploadArgs).spooled);
  }
  return wanted;
}
