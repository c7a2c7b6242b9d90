import type { Api } from "./gpve.ts";

export interface TaskStatus {
  readonly status: string;
  readonly exitstatus?: string;
  readonly type: string;
  readonly id: string;
}

/** Polls a task as clients do, until it has stopped. */
export async function waitTask(api: Api, upid: string, timeoutMs = 60_000): Promise<TaskStatus> {
  const node = upid.split(":")[1] ?? "";
  const end = Date.now() + timeoutMs;
  for (;;) {
    const task = (await api("GET", `/nodes/${node}/tasks/${encodeURIComponent(upid)}/status`))
      .data as TaskStatus;
    if (task.status === "stopped") return task;
    if (Date.now() > end) throw new Error(`task ${upid} did not end in ${timeoutMs} ms`);
    await new Promise((done) => setTimeout(done, 50));
  }
}
