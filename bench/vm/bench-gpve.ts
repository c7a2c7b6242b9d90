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
