// Fills an empty store, as restore and migration do, and takes everything back when it does not come to its end.
import { AppError, isAppError, messageOf } from "@gpve/contracts/errors.ts";
import { ignore } from "@gpve/kit/background.ts";
import type { Bytes, Op, Store } from "../port.ts";
import { MAX_REQUEST_BYTES, MAX_TXN_OPS } from "../txn-rules.ts";
import { type Contents, EVERYTHING, contentsOf } from "./digest.ts";

const BATCH_OPS = MAX_TXN_OPS - 28;
const ATTEMPTS = 3;
const BATCH_BYTES = MAX_REQUEST_BYTES / 2;

/** `copy` puts records one after another; the result must hold exactly what `copy` says it put. */
export async function fillStore(
  to: Store,
  copy: (put: (key: Bytes, value: Bytes) => Promise<void>) => Promise<Contents>,
): Promise<Contents> {
  const { count } = await to.range({ ...EVERYTHING, countOnly: true });
  if (count > 0) {
    throw new AppError(
      "object.exists",
      `the target store is not empty (${count} keys); nothing was changed. Use a fresh one`,
      { data: { count } },
    );
  }
  try {
    const batch = new Batch(to);
    const expected = await copy((key, value) => batch.put(key, value));
    await batch.flush();
    const found = await contentsOf(to);
    if (found.count !== expected.count || found.sha256 !== expected.sha256) {
      throw new AppError(
        "internal.error",
        `the copy differs from its source: ${found.count} keys instead of ${expected.count}, or other values`,
      );
    }
    return found;
  } catch (err) {
    try {
      await to.txn({ compare: [], success: [{ type: "delete", ...EVERYTHING }] });
    } catch (late) {
      ignore(late, "told together with the failure itself");
      throw new AppError(
        "operation.failed",
        `copying failed (${messageOf(err)}) and the half-filled target could not be emptied; discard it`,
        { cause: err },
      );
    }
    throw err;
  }
}

class Batch {
  readonly #to: Store;
  #ops: Op[] = [];
  #bytes = 0;

  constructor(to: Store) {
    this.#to = to;
  }

  async put(key: Bytes, value: Bytes): Promise<void> {
    const bytes = key.length + value.length;
    if (this.#ops.length >= BATCH_OPS || this.#bytes + bytes > BATCH_BYTES) await this.flush();
    this.#ops.push({ type: "put", key, value });
    this.#bytes += bytes;
  }

  async flush(): Promise<void> {
    if (this.#ops.length === 0) return;
    const success = this.#ops;
    this.#ops = [];
    this.#bytes = 0;
    // Putting the same once more changes nothing in a store that is ours alone, so a lost answer is no loss.
    for (let attempt = 1; ; attempt++) {
      try {
        await this.#to.txn({ compare: [], success });
        return;
      } catch (err) {
        if (!isAppError(err, "store.unavailable") || attempt === ATTEMPTS) throw err;
      }
    }
  }
}
