import type { Api } from "./gpve.ts";

export interface TaskStatus {
  readonly upid: string;
  readonly status: string;
  readonly exitstatus?: string;
  readonly type: string;
  readonly id: string;
}

export type TaskCall = [method: string, path: string, params?: Readonly<Record<string, string | number>>];

/** Polls a task as clients do, until it has stopped. */
export async function waitTask(api: Api, upid: string, timeoutMs = 180_000): Promise<TaskStatus> {
  const node = upid.split(":")[1] ?? "";
  const end = performance.now() + timeoutMs;
  for (;;) {
    const task = (await api("GET", `/nodes/${node}/tasks/${encodeURIComponent(upid)}/status`))
      .data as TaskStatus;
    if (task.status === "stopped") return task;
    if (performance.now() > end) throw new Error(`task ${upid} did not end in ${timeoutMs} ms`);
    await new Promise((done) => setTimeout(done, 50));
  }
}

/** Asks for work that must be taken, and waits for its end. */
export async function runTask(api: Api, ...[method, path, params]: TaskCall): Promise<TaskStatus> {
  const answer = await api(method, path, params);
  if (answer.status !== 200)
    throw new Error(`${method} ${path} was answered with ${answer.status}: ${answer.text}`);
  return waitTask(api, answer.data as string);
}

/** The lines of a task's log. */
export async function taskLog(api: Api, upid: string): Promise<string> {
  const node = upid.split(":")[1] ?? "";
  const rows = (await api("GET", `/nodes/${node}/tasks/${encodeURIComponent(upid)}/log`, { limit: 0 }))
    .data as readonly { readonly t: string }[];
  return rows.map(({ t }) => t).join("\n");
}
