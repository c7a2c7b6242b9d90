// What a process sees of the server it runs.
import type { AgentConnection } from "@gpve/domain/node/agent-port.ts";
import type { TaskDirectory } from "@gpve/domain/task/ports.ts";
import type { Logger } from "@gpve/kit/logger.ts";
import type { OperationEngine } from "@gpve/kit/operation/engine.ts";
import type { TaskLogFiles } from "@gpve/kit/task-log/task-log-files.ts";
import type { Records } from "@gpve/store/records/port.ts";
import type { Access } from "./application/access/access.ts";
import type { BootstrapResult } from "./application/access/bootstrap.ts";
import type { MemoryNodeBoard } from "./application/node/board.ts";
import type { Membership } from "./application/node/membership.ts";
import type { StorageDefinitions } from "./application/storage/storage-definitions.ts";
import type { StorageSecrets } from "./application/storage/storage-secrets.ts";
import type { ShownCertificates } from "./infrastructure/pki/shown-certificates.ts";
import type { FileAuditLog } from "./infrastructure/audit/file-audit-log.ts";
import type { ClusterPki } from "./infrastructure/pki/cluster-pki.ts";
import type { Listener } from "./presentation/listener/listener.ts";

/** What a process needs to know of the server it runs, before anything listens. */
export interface OpenServer {
  readonly records: Records;
  readonly access: Access;
  readonly storages: StorageDefinitions;
  readonly storageSecrets: StorageSecrets;
  readonly pki: ClusterPki;
  /** What clients are shown. */
  readonly certificates: Pick<ShownCertificates, "shown" | "onChange" | "caFile">;
  readonly membership: Membership;
  readonly board: MemoryNodeBoard;
  readonly engine: OperationEngine;
  readonly tasks: TaskDirectory;
  readonly taskLogs: TaskLogFiles;
  readonly audit: FileAuditLog;
  readonly bootstrapped: BootstrapResult;
  readonly log: Logger;
  start(local: LocalParts): Promise<Listener>;
  close(): Promise<void>;
}

interface LocalParts {
  /** The agent of this very process. */
  readonly agent?: AgentConnection;
  /** Answers in a node's name for tasks of servers, which its agent does not know. */
  readonly serverTasks?: (node: string) => AgentConnection;
}
