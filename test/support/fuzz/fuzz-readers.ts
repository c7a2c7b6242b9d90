// Feeds readers with broken input, each in a thread of its own that is watched from outside: an input that keeps a
// reader busy cannot keep the watcher busy.
import { Worker } from "node:worker_threads";

export interface ReaderRun {
  readonly reader: string;
  readonly seed: number;
  readonly first: number;
  readonly inputs: number;
}

export interface ReaderVerdict {
  readonly results: number;
  readonly refusals: number;
  readonly slowestMs: number;
  /** Says which input it was; undefined = every input ended in a result or the reader's own error. */
  readonly fault: string | undefined;
}

/** From the thread: `index` is the fault's. */
export type WorkerReport =
  | { readonly done: true; readonly results: number; readonly refusals: number; readonly slowestMs: number }
  | { readonly done: false; readonly index: number; readonly fault: string };

const HANGS_AFTER_MS = 20_000;
const LOOK_EVERY_MS = 500;
const HEAP_MIB = 512;

export async function fuzzReader(run: ReaderRun): Promise<ReaderVerdict> {
  const progress = new SharedArrayBuffer(4);
  const worker = new Worker(new URL("reader-worker.ts", import.meta.url), {
    workerData: { ...run, progress },
    resourceLimits: { maxOldGenerationSizeMb: HEAP_MIB },
    execArgv: [],
  });
  const failed = (index: number, fault: string): ReaderVerdict => ({
    results: 0,
    refusals: 0,
    slowestMs: 0,
    fault: `${run.reader}, input ${index} of seed ${run.seed}: ${fault}`,
  });
  const current = (): number => Atomics.load(new Int32Array(progress), 0);
  let timer: NodeJS.Timeout | undefined;
  try {
    return await new Promise<ReaderVerdict>((resolve) => {
      let last = -1;
      let since = Date.now();
      timer = setInterval(() => {
        const now = current();
        if (now !== last) [last, since] = [now, Date.now()];
        else if (Date.now() - since > HANGS_AFTER_MS)
          resolve(failed(now, `no end after ${HANGS_AFTER_MS / 1_000} s`));
      }, LOOK_EVERY_MS);
      worker.on("message", (report: WorkerReport) => {
        if (report.done) resolve({ ...report, fault: undefined });
        else resolve(failed(report.index, report.fault));
      });
      // Out of memory, or thrown where nobody could catch it.
      worker.on("error", (err) => resolve(failed(current(), String(err))));
      worker.on("exit", (code) => resolve(failed(current(), `the thread ended with ${code}`)));
    });
  } finally {
    clearInterval(timer);
    await worker.terminate();
  }
}
