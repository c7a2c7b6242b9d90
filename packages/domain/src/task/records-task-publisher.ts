import type { RecordWriter } from "../record/collection.ts";
import type { TaskPublisher } from "./ports.ts";
import { applyTaskChanges, taskRecords, type TaskChange, type TaskRecord } from "./task-record.ts";

/** Publishes tasks as records of the cluster store, for every server's cache. */
export class RecordsTaskPublisher implements TaskPublisher {
  readonly #records: RecordWriter;

  constructor(records: RecordWriter) {
    this.#records = records;
  }

  async apply(changes: readonly TaskChange[]): Promise<void> {
    await this.#records.transact((tx) =>
      applyTaskChanges(
        {
          get: (id) => tx.get(taskRecords, id)?.value,
          put: (id, record) => tx.put(taskRecords, id, record),
          delete: (id) => tx.delete(taskRecords, id),
        },
        changes,
      ),
    );
  }

  async published(node: string): Promise<readonly TaskRecord[]> {
    await this.#records.fresh();
    const entries = this.#records.collection(taskRecords).list();
    return entries.filter(({ id }) => id.startsWith(`${node}/`)).map(({ value }) => value);
  }
}
