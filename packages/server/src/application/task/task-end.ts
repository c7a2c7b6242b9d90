import { AppError } from "@gpve/contracts/errors.ts";
import { taskRecordId } from "@gpve/domain/task/task-record.ts";
import { statusTypeOf } from "@gpve/domain/task/task.ts";
import type { Records } from "@gpve/store/records/port.ts";
import { taskRecords } from "@gpve/domain/task/task-record.ts";

/** Resolves when a task of any node has ended, with warnings or without; throws what it failed with. */
export async function taskEnd(records: Records, upid: string, signal: AbortSignal): Promise<void> {
  const id = taskRecordId(upid);
  if (id === undefined) throw new AppError("internal.error", `${upid} is no task`);
  const tasks = records.collection(taskRecords);
  const { promise, resolve, reject } = Promise.withResolvers<string>();
  const look = (): void => {
    const status = tasks.get(id)?.value.exitstatus;
    if (status !== undefined) resolve(status);
  };
  const stop = tasks.onChange((changed) => {
    if (changed === id) look();
  });
  const abort = (): void => reject(signal.reason);
  signal.addEventListener("abort", abort);
  try {
    look();
    const status = await promise;
    if (statusTypeOf(status) === "error")
      throw new AppError("operation.failed", status, { data: { task: upid } });
    await records.fresh({ signal });
  } finally {
    stop();
    signal.removeEventListener("abort", abort);
  }
}
