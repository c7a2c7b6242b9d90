// Ends what a dead server had begun. Its claim on its journal ends with its lease; then another server claims it, which
// resumes or undoes each operation as the server itself would have after a restart, and gives the journal back.
import { messageOf } from "@gpve/contracts/errors.ts";
import { ignore } from "@gpve/kit/background.ts";
import type { Clock } from "@gpve/kit/clock.ts";
import type { Logger } from "@gpve/kit/logger.ts";
import type { OperationEngine } from "@gpve/kit/operation/engine.ts";
import { isEnded } from "@gpve/kit/operation/states.ts";
import { every } from "@gpve/kit/every.ts";

export interface TakeOverDeps {
  readonly clock: Clock;
  readonly log: Logger;
  /** This server's own journal, which is not to be taken from itself. */
  readonly ownJournal: string;
  /** Journals with unfinished work that nobody owns. */
  readonly orphans: () => Promise<readonly string[]>;
  /** An engine on another server's journal, with everything registered that servers run. */
  readonly engineOn: (journal: string) => Pick<OperationEngine, "start" | "stop" | "list" | "wait">;
}

const LOOK_EVERY_MS = 3_000;
/** A server that only starts again takes its own journal within this. */
const GRACE_MS = 5_000;
/** Others may be quicker: who does not get a journal soon leaves it to them. */
const CLAIM_MS = 15_000;

/** Looks until `signal` aborts. */
export async function takeOverJournals(deps: TakeOverDeps, signal: AbortSignal): Promise<void> {
  const { clock, log, ownJournal } = deps;
  const seenAt = new Map<string, number>();
  await every(LOOK_EVERY_MS, { clock, signal }, async () => {
    try {
      const orphans = (await deps.orphans()).filter((name) => name !== ownJournal);
      for (const name of seenAt.keys()) if (!orphans.includes(name)) seenAt.delete(name);
      for (const name of orphans) {
        const since = seenAt.get(name) ?? clock.monotonic();
        seenAt.set(name, since);
        if (clock.monotonic() - since < GRACE_MS) continue;
        seenAt.delete(name);
        await takeOver(deps, name, signal);
      }
    } catch (err) {
      if (!signal.aborted)
        log.warn({ err: messageOf(err) }, "the journals of other servers cannot be looked at");
    }
  });
}

async function takeOver(
  { clock, log, engineOn }: TakeOverDeps,
  name: string,
  signal: AbortSignal,
): Promise<void> {
  const engine = engineOn(name);
  try {
    const claimed = engine.start().then(() => true);
    claimed.catch((err: unknown) => ignore(err, "told below, or given up"));
    const isOurs = await Promise.race([claimed, clock.sleep(CLAIM_MS, signal).then(() => false)]);
    if (!isOurs) return;
    const begun = [...engine.list()].filter(({ state }) => !isEnded(state));
    log.warn({ journal: name, operations: begun.map(({ id }) => id) }, "ending what a dead server had begun");
    for (const { id } of begun) {
      const { exitStatus } = await engine.wait(id, signal);
      log.info({ journal: name, operation: id, exitStatus }, "an operation of a dead server has ended");
    }
  } finally {
    await engine.stop();
  }
}
