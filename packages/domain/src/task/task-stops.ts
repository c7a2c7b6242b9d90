// Tasks of servers that are to end: the one that runs it may be another than the one that was asked.
import { isObject } from "@gpve/contracts/json-object.ts";
import { type RecordCollection, unknownShape } from "../record/collection.ts";

export interface TaskStop {
  readonly upid: string;
  /** Who wants it to end. */
  readonly by: string;
}

/** By the task's UPID. */
export const taskStops: RecordCollection<TaskStop> = {
  prefix: "/gpve/task-stops/",
  decode: (json) => {
    const { upid, by } = isObject(json) ? json : {};
    if (typeof upid !== "string" || typeof by !== "string") throw unknownShape("the wish to stop a task");
    return { upid, by };
  },
};
