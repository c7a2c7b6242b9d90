// A gpve for measuring, and how its tasks are run.
import { apiOf, startGpve, type Api, type Gpve } from "../../test/support/gpve.ts";
import { waitTask } from "../../test/support/tasks.ts";

export interface Bench {
  readonly gpve: Gpve;
  readonly data: string;
  readonly api: Api;
}

const TASK_TIMEOUT_MS = 1_800_000;
export const NODE = "bench";

export async function startBench(args: readonly string[] = []): Promise<Bench> {
  return benchOf(await startGpve({ args: ["--node", NODE, ...args] }));
}

export function benchOf(gpve: Gpve): Bench {
  return { gpve, data: gpve.data, api: askingAgain(apiOf(gpve.credentials)) };
}

/** Thousands of polls, a new connection each: one that is lost on the way is asked again. */
function askingAgain(api: Api): Api {
  return async (method, ...rest) => {
    try {
      return await api(method, ...rest);
    } catch (error) {
      if (method !== "GET") throw error;
      console.error(`asked again: ${String(error)}`);
      return api(method, ...rest);
    }
  };
}

export async function runTask(
  bench: Bench,
  method: string,
  path: string,
  params: Readonly<Record<string, string | number>> = {},
): Promise<void> {
  const answer = await bench.api(method, path, params);
  if (answer.status !== 200) throw new Error(`${method} ${path}: ${answer.status} ${answer.text}`);
  const { exitstatus } = await waitTask(bench.api, answer.data, TASK_TIMEOUT_MS);
  if (exitstatus !== "OK" && exitstatus?.startsWith("WARNINGS") !== true)
    throw new Error(`${method} ${path}: the task ended with ${exitstatus ?? "nothing"}`);
}

const POLL_MS = 100;

/** Asks for all of them at once and watches their node's list: a poll per task would be most of what is measured. */
export async function runTasks(
  { api }: Bench,
  requests: readonly (readonly [method: string, path: string, params: Readonly<Record<string, number>>])[],
): Promise<void> {
  const upids = await Promise.all(
    requests.map(async ([method, path, params]) => {
      const answer = await api(method, path, params);
      if (answer.status !== 200) throw new Error(`${method} ${path}: ${answer.status} ${answer.text}`);
      return answer.data as string;
    }),
  );
  const active = async (): Promise<readonly unknown[]> =>
    (await api("GET", `/nodes/${NODE}/tasks`, { source: "active" })).data;
  while ((await active()).length > 0) await new Promise((done) => setTimeout(done, POLL_MS));
  const ended = (await api("GET", `/nodes/${NODE}/tasks`, { source: "archive", limit: 10_000 }))
    .data as readonly { upid: string; status: string }[];
  for (const { upid, status } of ended)
    if (upids.includes(upid) && status !== "OK") throw new Error(`${upid} ended with ${status}`);
}

/** Does them all, `atOnce` at a time. */
export async function forEach<T>(
  items: readonly T[],
  atOnce: number,
  work: (item: T) => Promise<void>,
): Promise<void> {
  const waiting = [...items];
  const worker = async (): Promise<void> => {
    for (let next = waiting.shift(); next !== undefined; next = waiting.shift()) await work(next);
  };
  await Promise.all(Array.from({ length: atOnce }, worker));
}
