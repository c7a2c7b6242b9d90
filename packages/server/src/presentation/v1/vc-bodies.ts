// Bodies of requests about virtual clusters that say the same in several words, as they were drawn and as they came to be.
import type { AppError } from "@gpve/contracts/errors.ts";
import { given } from "@gpve/contracts/given.ts";
import { invalidField } from "@gpve/contracts/invalid-field.ts";
import type { ScaleRequest, SleepRequest } from "@gpve/contracts/v1/bodies.ts";
import type { VcUpgradeRequest } from "@gpve/contracts/v1/vc-save-bodies.ts";
import type { SleepMode } from "@gpve/domain/vcluster/power/sleep-policy.ts";
import type { ScaleAsk } from "../../application/vcluster/scale/scale-cluster.ts";

/** Said in either of two words; in both only where they agree. */
export function wantedVersion({ version, targetVersion, drain = false }: VcUpgradeRequest): {
  readonly version: string;
  readonly drain: boolean;
} {
  const said = version ?? targetVersion;
  if (said === undefined) throw refused("version", "is missing: say 1.36 or 1.36.4");
  if (targetVersion !== undefined && targetVersion !== said)
    throw refused("version", "and targetVersion differ");
  const plain = said.replace(/^v/, "");
  if (!/^\d+\.\d+(\.\d+)?([+-][0-9A-Za-z.+-]+)?$/.test(plain))
    throw refused("version", `'${said}' is none: say 1.36 or 1.36.4`);
  return { version: plain, drain };
}

/** Of the cluster's own workers or a pool, in one of two places. */
export function scaleAsk({ count, pool, workerNodes }: ScaleRequest): ScaleAsk {
  if (workerNodes !== undefined) {
    if (count !== undefined || pool !== undefined)
      throw refused("workerNodes", "is said beside count or pool: say one of them");
    return workerNodes;
  }
  if (count === undefined) throw refused("count", "is missing: say how many workers it shall have");
  return { count, ...given({ pool }) };
}

/** `asked`: in the query. */
export function sleepMode(asked: string | undefined, { mode }: SleepRequest = {}): SleepMode {
  if (asked !== undefined && mode !== undefined && asked !== mode)
    throw refused("mode", `is ${mode} in the body and ${asked} in the query`);
  return (mode ?? asked) === "warm" ? "warm" : "cold";
}

function refused(field: string, why: string): AppError {
  return invalidField(field, why, `the body is not valid: ${field} ${why}`);
}
