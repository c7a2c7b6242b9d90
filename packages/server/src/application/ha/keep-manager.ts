// The manager's rounds: every server runs them, and one of them leads.
import { isAppError, messageOf } from "@gpve/contracts/errors.ts";
import { Coordinator } from "@gpve/domain/ha/coordinator.ts";
import type { Clock } from "@gpve/kit/clock.ts";
import type { Logger } from "@gpve/kit/logger.ts";
import { every } from "@gpve/kit/every.ts";
import type { Records } from "@gpve/store/records/port.ts";
import type { ManagerEnvironment } from "./manager-environment.ts";

export interface KeepManagerDeps {
  readonly environment: ManagerEnvironment;
  readonly records: Records;
  readonly clock: Clock;
  readonly log: Logger;
}

const ROUND_MS = 1_000;
const FRESH_MS = 2_500;

export async function keepManager(deps: KeepManagerDeps, signal: AbortSignal): Promise<void> {
  const { environment, clock, log } = deps;
  environment.begin(false);
  const coordinator = new Coordinator(environment.view);
  await every(ROUND_MS, { clock, signal }, async () => {
    try {
      environment.begin(await isFresh(deps, signal));
      coordinator.round();
      await environment.commit();
    } catch (err) {
      if (signal.aborted) return;
      const level = isAppError(err, "object.conflict") ? "info" : "warn";
      log[level]({ err: messageOf(err) }, "a round of the HA manager was given up; the next one tries again");
    }
  });
  environment.close();
}

async function isFresh({ records, clock }: KeepManagerDeps, signal: AbortSignal): Promise<boolean> {
  const late = new AbortController();
  const cancel = clock.after(FRESH_MS, () => late.abort(new Error("the store does not answer")));
  try {
    await records.fresh({ signal: AbortSignal.any([signal, late.signal]) });
    return true;
  } catch {
    return false; // said by the round that is skipped
  } finally {
    cancel();
  }
}
