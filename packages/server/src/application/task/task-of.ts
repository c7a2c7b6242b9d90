import { type TaskRecord, taskRecordId, taskRecords } from "@gpve/domain/task/task-record.ts";
import type { Records } from "@gpve/store/records/port.ts";

/** undefined: it is not known yet, or not any more. */
export function taskOf(records: Pick<Records, "collection">, upid: string): TaskRecord | undefined {
  const id = taskRecordId(upid);
  return id === undefined ? undefined : records.collection(taskRecords).get(id)?.value;
}
