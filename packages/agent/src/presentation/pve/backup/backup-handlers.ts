// vzdump and what belongs to it.
import type { BackupArchives, NodeFiles } from "@gpve/domain/backup/backup-ports.ts";
import type { VzdumpSettings } from "@gpve/domain/backup/vzdump-defaults.ts";
import type { PveHandlers } from "@gpve/domain/request/handler.ts";
import type { OperationEngine } from "@gpve/kit/operation/engine.ts";
import { archivedConfigText } from "../../../application/qemu/chain/open-backup.ts";
import type { BackupRequestPorts } from "../../../application/guest/backup/vzdump-request.ts";
import { requireArchivedConfig } from "../../../application/guest/backup/require-backup.ts";
import { showBackupDefaults } from "../../../application/guest/backup/show-defaults.ts";
import { backupsUnderWay, requestBackup } from "../../../application/guest/backup/request-backup.ts";

export interface BackupHandlerDeps {
  readonly host: BackupRequestPorts;
  readonly tools: BackupArchives & NodeFiles;
  readonly engine: OperationEngine;
  /** undefined = there is no such pool. */
  readonly poolMembers: (pool: string) => readonly number[] | undefined;
  /** What this node takes where a request says nothing. */
  readonly settings: () => VzdumpSettings;
}

export function createBackupHandlers(deps: BackupHandlerDeps): PveHandlers {
  const { host, tools, engine } = deps;
  const underWay = backupsUnderWay(engine);
  return {
    "POST /nodes/{node}/vzdump": (request, ctx) => requestBackup({ ...deps, underWay }, request, ctx),
    "GET /nodes/{node}/vzdump/defaults": (request, ctx) => showBackupDefaults(deps, request, ctx),
    "GET /nodes/{node}/vzdump/extractconfig": ({ volume }, ctx) => {
      requireArchivedConfig(host, volume, ctx);
      return archivedConfigText(host, tools, volume);
    },
  };
}
