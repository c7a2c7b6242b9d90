// The operations of one node: journal in DIR/agent/operations.db, logs in DIR/tasks, tasks published to the cluster.
import { uptime } from "node:os";
import { given } from "@gpve/contracts/given.ts";
import { messageOf } from "@gpve/contracts/errors.ts";
import { isServerTask, operationTasks, upidNamer } from "@gpve/domain/task/operation-tasks.ts";
import type { TaskDirectory, TaskPublisher } from "@gpve/domain/task/ports.ts";
import { TaskOutbox } from "@gpve/domain/task/task-outbox.ts";
import { background } from "@gpve/kit/background.ts";
import type { Clock } from "@gpve/kit/clock.ts";
import { OperationEngine } from "@gpve/kit/operation/engine.ts";
import type { CrashInjector, OperationLogger } from "@gpve/kit/operation/ports.ts";
import { TaskLogFiles } from "@gpve/kit/task-log/task-log-files.ts";
import { StoreJournal } from "@gpve/store/journal/store-journal.ts";
import { openSqliteStore } from "@gpve/store/sqlite/sqlite-store.ts";

export interface AgentOperationsOptions {
  /** Names a file of the data directory. */
  readonly file: (...parts: string[]) => string;
  readonly node: string;
  readonly clock: Clock;
  readonly logger: OperationLogger;
  readonly publisher: TaskPublisher;
  /** Operations running at the same time. */
  readonly concurrency?: number;
  /** Test compositions only. */
  readonly crash?: CrashInjector;
  /** Awaited before an operation is shown as ended. */
  readonly beforeEnd: () => Promise<void>;
}

export interface AgentOperations {
  /** Register every definition before `start`. */
  readonly engine: OperationEngine;
  readonly tasks: TaskDirectory;
  readonly logs: TaskLogFiles;
  /** Recovers what a crash left, then runs. */
  start(): Promise<void>;
  stop(graceMs?: number): Promise<void>;
}

/** History that a store of our own need not keep. */
const COMPACT_EVERY = 1_000;

export function openAgentOperations(options: AgentOperationsOptions): AgentOperations {
  const { file, node, clock, logger, publisher, concurrency, crash, beforeEnd } = options;
  const store = openSqliteStore({ path: file("agent", "operations.db"), clock });
  const logs = new TaskLogFiles({ directory: file("tasks"), logger });
  const engine = new OperationEngine({
    journal: new StoreJournal({ store, clock, prefix: "/operations/", compactEvery: COMPACT_EVERY }),
    owner: `agent/${node}`,
    clock,
    logs,
    logger,
    nameOf: upidNamer(node, () => uptime() * 100),
    beforeEnd,
    ...given({ concurrency, crash }),
  });
  const outbox = new TaskOutbox({
    publisher,
    clock,
    onFailure: (error, waiting) =>
      logger.warn({ err: messageOf(error), waiting }, "task records wait for the store"),
  });
  engine.observe(outbox.hear);
  return {
    engine,
    tasks: operationTasks(engine, clock),
    logs,
    async start() {
      await engine.start();
      // Not awaited: a cluster store that is away must not keep a node from working.
      background(logger, "telling the cluster of this node's tasks", reconcile(engine, outbox, node));
    },
    async stop(graceMs) {
      await engine.stop(graceMs);
      await outbox.close();
      await store.close();
    },
  };
}

function reconcile(engine: OperationEngine, outbox: TaskOutbox, node: string): Promise<void> {
  return outbox.reconcile(
    node,
    () => engine.list(),
    (task) => !isServerTask(task),
  );
}
