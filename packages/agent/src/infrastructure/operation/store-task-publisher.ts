import type { TaskPublisher } from "@gpve/domain/task/ports.ts";
import {
  applyTaskChanges,
  decodeTaskRecord,
  TASK_PREFIX,
  taskRecordId,
} from "@gpve/domain/task/task-record.ts";
import type { TaskChange, TaskRecord } from "@gpve/domain/task/task-record.ts";
import { fromUtf8, prefixEnd, utf8 } from "@gpve/store/keys.ts";
import type { Compare, Op, Store } from "@gpve/store/port.ts";
import { readAll } from "@gpve/store/read-all.ts";

/** Publishes tasks straight to the cluster store, without a cache: an agent only ever looks at its own. */
export class StoreTaskPublisher implements TaskPublisher {
  readonly #store: Store;

  constructor(store: Store) {
    this.#store = store;
  }

  async apply(changes: readonly TaskChange[]): Promise<void> {
    while (!(await this.#tryApply(changes))) {
      // Somebody else wrote one of these records in between: look again.
    }
  }

  async published(node: string): Promise<readonly TaskRecord[]> {
    const key = utf8(`${TASK_PREFIX}${node}/`);
    const records: TaskRecord[] = [];
    await readAll(this.#store, { key, end: prefixEnd(key) }, undefined, (kvs) => {
      for (const kv of kvs) records.push(decodeTaskRecord(JSON.parse(fromUtf8(kv.value))));
    });
    return records;
  }

  async #tryApply(changes: readonly TaskChange[]): Promise<boolean> {
    const before = new Map<string, TaskRecord>();
    const compare: Compare[] = [];
    for (const { upid } of changes) {
      const id = taskRecordId(upid);
      if (id === undefined) continue;
      const key = utf8(TASK_PREFIX + id);
      const { kvs } = await this.#store.range({ key });
      const [known] = kvs;
      if (known !== undefined) before.set(id, decodeTaskRecord(JSON.parse(fromUtf8(known.value))));
      const modRevision = known?.modRevision ?? 0;
      compare.push({ key, target: "modRevision", result: "equal", modRevision });
    }
    const success: Op[] = [];
    applyTaskChanges(
      {
        get: (id) => before.get(id),
        put: (id, record) =>
          void success.push({
            type: "put",
            key: utf8(TASK_PREFIX + id),
            value: utf8(JSON.stringify(record)),
          }),
        delete: (id) => void success.push({ type: "delete", key: utf8(TASK_PREFIX + id) }),
      },
      changes,
    );
    return success.length === 0 || (await this.#store.txn({ compare, success })).succeeded;
  }
}
