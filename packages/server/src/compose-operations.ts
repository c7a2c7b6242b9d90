// Wires what servers run as operations: the engine on this server's own journal, and those on journals that dead servers
// leave behind.
import {
  isServerTask,
  operationTasks,
  SERVER_TASKS_FROM,
  upidNamer,
} from "@gpve/domain/task/operation-tasks.ts";
import { TaskOutbox } from "@gpve/domain/task/task-outbox.ts";
import { background } from "@gpve/kit/background.ts";
import type { Clock } from "@gpve/kit/clock.ts";
import type { Logger } from "@gpve/kit/logger.ts";
import { OperationEngine } from "@gpve/kit/operation/engine.ts";
import type { TaskLogFiles } from "@gpve/kit/task-log/task-log-files.ts";
import type { Metrics } from "@gpve/kit/telemetry/metrics.ts";
import { OrphanedJournals } from "@gpve/store/journal/orphaned-journals.ts";
import { StoreJournal } from "@gpve/store/journal/store-journal.ts";
import type { Store } from "@gpve/store/port.ts";
import type { Records } from "@gpve/store/records/port.ts";
import { takeOverJournals } from "./application/operation/take-over.ts";
import { keepTaskStops } from "./application/task/published-server-tasks.ts";
import { RecordsTaskPublisher } from "@gpve/domain/task/records-task-publisher.ts";

export interface OperationParts {
  readonly store: Store;
  readonly records: Records;
  readonly clock: Clock;
  readonly log: Logger;
  readonly metrics: Metrics;
  readonly taskLogs: TaskLogFiles;
  readonly nodeName: string;
  /** Tells this process from every other; the same after a restart. */
  readonly owner: string;
  /** Several servers may share the store: ownership is by lease. */
  readonly shared: boolean;
}

export interface Operations {
  readonly engine: OperationEngine;
  /** Claims this server's journal; then others' too, when they die. Everything must be registered by then. */
  start(register: (engine: OperationEngine) => void): Promise<void>;
  close(): Promise<void>;
}

const ROOT = "/gpve/operations/";

/** The journals of all servers on this store. */
export function serverJournals(store: Store): OrphanedJournals {
  return new OrphanedJournals(store, ROOT);
}

export function composeOperations(parts: OperationParts): Operations {
  const { store, records, clock, log, metrics, nodeName } = parts;
  const outbox = new TaskOutbox({
    publisher: new RecordsTaskPublisher(records),
    clock,
    onFailure: (err, waiting) => log.warn({ err: String(err), waiting }, "task records wait for the store"),
  });
  const engineOn = (name: string): OperationEngine => {
    const engine = new OperationEngine({
      journal: new StoreJournal({
        store,
        clock,
        prefix: `${ROOT}${name}/`,
        numberFrom: SERVER_TASKS_FROM,
        ...(parts.shared ? { leaseSeconds: 10 } : {}),
      }),
      owner: parts.owner,
      clock,
      logs: parts.taskLogs,
      logger: log,
      nameOf: upidNamer(name, () => clock.monotonic() / 10),
    });
    engine.observe(outbox.hear);
    engine.observe(metrics.countTasks);
    return engine;
  };
  const engine = engineOn(nodeName);
  metrics.watchQueue("server", () => engine.counts().waiting + engine.counts().running);
  const stop = new AbortController();
  let takingOver = Promise.resolve();
  let stopStops = (): void => undefined;
  return {
    engine,
    async start(register) {
      await engine.start();
      const reconciled = outbox.reconcile(nodeName, () => engine.list(), isServerTask);
      background(log, "telling the cluster of this server's tasks", reconciled);
      if (!parts.shared) return;
      stopStops = keepTaskStops({ records, localNode: nodeName, own: operationTasks(engine, clock), log });
      const orphaned = serverJournals(store);
      const heirOf = (name: string): OperationEngine => {
        const heir = engineOn(name);
        register(heir);
        return heir;
      };
      takingOver = takeOverJournals(
        { clock, log, ownJournal: nodeName, orphans: () => orphaned.find(), engineOn: heirOf },
        stop.signal,
      );
    },
    async close() {
      stop.abort();
      stopStops();
      await takingOver;
      await engine.stop();
      await outbox.close();
    },
  };
}
