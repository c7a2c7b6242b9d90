import type { TaskPublisher } from "@gpve/domain/task/ports.ts";
import { applyTaskChanges, decodeTaskRecord, TASK_PREFIX } from "@gpve/domain/task/task-record.ts";
import type { TaskChange, TaskRecord } from "@gpve/domain/task/task-record.ts";
import type { CollectionDef, Records } from "@gpve/store/records/port.ts";

/** Publishes tasks as records of the cluster store, for every server's cache. */
export class RecordsTaskPublisher implements TaskPublisher {
  readonly #records: Records;
  readonly #definition: CollectionDef<TaskRecord>;

  /** Give the definition that readers use, so that both share one cache. */
  constructor(
    records: Records,
    definition: CollectionDef<TaskRecord> = { prefix: TASK_PREFIX, decode: decodeTaskRecord },
  ) {
    this.#records = records;
    this.#definition = definition;
  }

  async apply(changes: readonly TaskChange[]): Promise<void> {
    const definition = this.#definition;
    await this.#records.transact((tx) =>
      applyTaskChanges(
        {
          get: (id) => tx.get(definition, id)?.value,
          put: (id, record) => tx.put(definition, id, record),
          delete: (id) => tx.delete(definition, id),
        },
        changes,
      ),
    );
  }

  async published(node: string): Promise<readonly TaskRecord[]> {
    await this.#records.fresh();
    const entries = this.#records.collection(this.#definition).list();
    return entries.filter(({ id }) => id.startsWith(`${node}/`)).map(({ value }) => value);
  }
}
