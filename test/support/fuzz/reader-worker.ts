// The thread in which one reader gets its inputs.
import { isMainThread, parentPort, workerData } from "node:worker_threads";
import { getHeapStatistics } from "node:v8";
import { isAppError } from "@gpve/contracts/errors.ts";
import type { ReaderRun, WorkerReport } from "./fuzz-readers.ts";
import { mutate } from "./mutate.ts";
import { Random } from "./random.ts";
import { brokenReaders, readCorpus, readerTargets, type ReaderTarget } from "./reader-targets.ts";

/** Generous: the machine may be busy with others, and a hang is far beyond it. */
const SLOW_MS = 3_000;
const MEMORY_BYTES = 192 * 1024 ** 2;
const ODD = 0x9e3779b1;

async function run({ reader, seed, first, inputs }: ReaderRun, progress: Int32Array): Promise<WorkerReport> {
  const target = readerTargets[reader] ?? brokenReaders[reader];
  if (target === undefined) throw new Error(`there is no reader '${reader}'`);
  const corpus = readCorpus(reader);
  const tally = { results: 0, refusals: 0, slowestMs: 0 };
  for (let index = first; index < first + inputs; index++) {
    Atomics.store(progress, 0, index);
    const fault = await feed(target, inputOf(target, corpus, seed, index), tally);
    if (fault !== undefined) return { done: false, index, fault };
  }
  return { done: true, ...tally };
}

function inputOf(target: ReaderTarget, corpus: readonly Buffer[], seed: number, index: number): Buffer {
  const random = new Random(Math.imul(index + 1, ODD) ^ seed);
  const bytes = mutate(random, corpus, target);
  return target.mend !== undefined && random.chance(0.8) ? target.mend(bytes) : bytes;
}

async function feed(
  target: ReaderTarget,
  input: Buffer,
  tally: { results: number; refusals: number; slowestMs: number },
): Promise<string | undefined> {
  const before = getHeapStatistics().external_memory;
  const started = performance.now();
  try {
    await target.read(input);
    tally.results++;
  } catch (err) {
    const isOwn = isAppError(err) || target.isOwnError?.(err) === true;
    if (!isOwn) return `threw ${err instanceof Error ? (err.stack ?? err.message) : String(err)}`;
    tally.refusals++;
  }
  const tookMs = performance.now() - started;
  tally.slowestMs = Math.max(tally.slowestMs, tookMs);
  if (tookMs > SLOW_MS) return `took ${Math.round(tookMs)} ms for ${input.length} bytes`;
  const took = getHeapStatistics().external_memory - before;
  if (took > MEMORY_BYTES) return `took ${Math.round(took / 1024 ** 2)} MiB for ${input.length} bytes`;
  return undefined;
}

if (!isMainThread && parentPort !== null) {
  const given = workerData as ReaderRun & { readonly progress: SharedArrayBuffer };
  parentPort.postMessage(await run(given, new Int32Array(given.progress)));
}
