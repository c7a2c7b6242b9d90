import { mapKey } from "../keys.ts";
import type { Op } from "../port.ts";

type Write = Extract<Op, { type: "put" | "delete" }>;

interface Waiting {
  readonly ops: readonly Write[];
  readonly resolve: () => void;
  readonly reject: (error: unknown) => void;
}

const MAX_OPS = 100;
const MAX_BYTES = 1_000_000;

/**
 * One transaction at a time; what is asked for meanwhile goes together into the next. Keeps the order, and costs
 * a hundred parallel operations one disk sync instead of a hundred.
 */
export class BatchWriter {
  readonly #commit: (ops: readonly Op[]) => Promise<void>;
  #waiting: Waiting[] = [];
  #isBusy = false;

  constructor(commit: (ops: readonly Op[]) => Promise<void>) {
    this.#commit = commit;
  }

  write(ops: readonly Op[]): Promise<void> {
    return new Promise((resolve, reject) => {
      this.#waiting.push({ ops: ops.filter(isWrite), resolve, reject });
      if (!this.#isBusy) void this.#drain();
    });
  }

  async #drain(): Promise<void> {
    this.#isBusy = true;
    while (this.#waiting.length > 0) {
      const batch = this.#nextBatch();
      try {
        await this.#commit(newestOf(batch));
        for (const one of batch) one.resolve();
      } catch (error) {
        if (batch.length === 1) batch[0]?.reject(error);
        else await this.#oneByOne(batch);
      }
    }
    this.#isBusy = false;
  }

  /** A write that the store refuses must not take its neighbours with it. */
  async #oneByOne(batch: readonly Waiting[]): Promise<void> {
    for (const { ops, resolve, reject } of batch) {
      try {
        await this.#commit(ops);
        resolve();
      } catch (error) {
        reject(error);
      }
    }
  }

  #nextBatch(): readonly Waiting[] {
    let ops = 0;
    let bytes = 0;
    const fits = this.#waiting.findIndex((one, at) => {
      ops += one.ops.length;
      for (const op of one.ops) bytes += op.key.length + (op.type === "put" ? op.value.length : 0);
      return at > 0 && (ops > MAX_OPS || bytes > MAX_BYTES);
    });
    return this.#waiting.splice(0, fits < 0 ? this.#waiting.length : fits);
  }
}

/** A transaction may touch a key once: the last write of each counts. */
function newestOf(batch: readonly Waiting[]): readonly Op[] {
  const newest = new Map<string, Op>();
  for (const { ops } of batch) for (const op of ops) newest.set(mapKey(op.key), op);
  return [...newest.values()];
}

function isWrite(op: Op): op is Write {
  return op.type === "put" || op.type === "delete";
}
