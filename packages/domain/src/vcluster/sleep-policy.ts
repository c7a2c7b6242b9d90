// When a cluster goes to sleep by itself, and how deep.
import { invalidField } from "./invalid-field.ts";
import type { Tier } from "./tier.ts";

/** warm: its processes stand still in memory. cold: they have ended. */
export const SLEEP_MODES = ["cold", "warm"] as const;
export type SleepMode = (typeof SLEEP_MODES)[number];

export interface SleepPolicy {
  readonly mode: SleepMode | "none";
  /** Without a byte of a tenant for so long. */
  readonly afterIdleSeconds: number;
}

const QUARTER_HOUR = 900;

const TIER_POLICIES: Readonly<Record<Tier, SleepPolicy>> = {
  Starter: { mode: "cold", afterIdleSeconds: QUARTER_HOUR },
  Standard: { mode: "warm", afterIdleSeconds: QUARTER_HOUR },
  Performance: { mode: "none", afterIdleSeconds: QUARTER_HOUR },
  Enterprise: { mode: "none", afterIdleSeconds: QUARTER_HOUR },
};

const SHORTEST_SECONDS = 5;
const LONGEST_SECONDS = 30 * 86_400;

export function sleepPolicyOf(tier: Tier): SleepPolicy {
  return TIER_POLICIES[tier];
}

/** As a request says it; what it leaves out is as the tier has it. */
export function readSleepPolicy(value: unknown, tier: Tier): SleepPolicy {
  const usual = sleepPolicyOf(tier);
  if (value === undefined || value === null) return usual;
  if (typeof value !== "object") throw invalidField("sleep", "must be an object");
  const { mode, afterIdleSeconds } = value as {
    readonly mode?: unknown;
    readonly afterIdleSeconds?: unknown;
  };
  const known = [...SLEEP_MODES, "none"] as const;
  const wanted =
    mode === undefined
      ? usual.mode
      : known.find((word) => typeof mode === "string" && word === mode.toLowerCase());
  if (wanted === undefined) throw invalidField("sleep.mode", `must be one of ${known.join(", ")}`);
  const seconds = afterIdleSeconds ?? usual.afterIdleSeconds;
  if (
    typeof seconds !== "number" ||
    !Number.isInteger(seconds) ||
    seconds < SHORTEST_SECONDS ||
    seconds > LONGEST_SECONDS
  )
    throw invalidField(
      "sleep.afterIdleSeconds",
      `must be a whole number from ${SHORTEST_SECONDS} to ${LONGEST_SECONDS}`,
    );
  return { mode: wanted, afterIdleSeconds: seconds };
}
