// When a cluster goes to sleep by itself, and how deep.
import { invalidSpec } from "../invalid-spec.ts";
import type { Tier } from "../tier.ts";
import { parseCalendarEvent } from "../../calendar/calendar-event.ts";
import { given } from "@gpve/contracts/given.ts";

/** warm: its processes stand still in memory. cold: they have ended. */
export const SLEEP_MODES = ["cold", "warm"] as const;
export type SleepMode = (typeof SLEEP_MODES)[number];

/** What keeps one awake beside the bytes of tenants, which always do: whoever has a connection would wake it again at once. */
export const KEEP_AWAKE = ["jobs", "sessions", "pods"] as const;
export type KeepAwake = (typeof KEEP_AWAKE)[number];

export interface SleepPolicy {
  readonly mode: SleepMode | "none";
  /** Without a byte of a tenant for so long, and without what else keeps it awake. */
  readonly afterIdleSeconds: number;
  /** Absent: nothing else does. */
  readonly keepAwake?: readonly KeepAwake[];
  /** Calendar events, such as `mon..fri 20:00`: it goes to sleep then, whoever uses it, and is woken then. */
  readonly sleepAt?: string;
  readonly wakeAt?: string;
  /** It is made asleep: its control plane starts for the first time when somebody connects. */
  readonly fromStart?: true;
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
  if (typeof value !== "object") throw invalidSpec("sleep", "must be an object");
  const { mode, afterIdleSeconds, keepAwake, sleepAt, wakeAt, fromStart } = value as Readonly<
    Record<"mode" | "afterIdleSeconds" | "keepAwake" | "sleepAt" | "wakeAt" | "fromStart", unknown>
  >;
  const known = [...SLEEP_MODES, "none"] as const;
  const wanted =
    mode === undefined
      ? usual.mode
      : known.find((word) => typeof mode === "string" && word === mode.toLowerCase());
  if (wanted === undefined) throw invalidSpec("sleep.mode", `must be one of ${known.join(", ")}`);
  const seconds = afterIdleSeconds ?? usual.afterIdleSeconds;
  if (
    typeof seconds !== "number" ||
    !Number.isInteger(seconds) ||
    seconds < SHORTEST_SECONDS ||
    seconds > LONGEST_SECONDS
  )
    throw invalidSpec(
      "sleep.afterIdleSeconds",
      `must be a whole number from ${SHORTEST_SECONDS} to ${LONGEST_SECONDS}`,
    );
  const times = given({ sleepAt: calendar("sleepAt", sleepAt), wakeAt: calendar("wakeAt", wakeAt) });
  if (wanted === "none" && times.sleepAt !== undefined)
    throw invalidSpec(
      "sleep.sleepAt",
      "says when it sleeps, and sleep.mode that it does not: say cold or warm",
    );
  if (fromStart !== undefined && typeof fromStart !== "boolean")
    throw invalidSpec("sleep.fromStart", "must be true or false");
  return {
    mode: wanted,
    afterIdleSeconds: seconds,
    ...given({ keepAwake: awakeFor(keepAwake) }),
    ...times,
    ...(fromStart === true ? { fromStart } : {}),
  };
}

/** Each once, in an order of ours: what means the same is the same. */
function awakeFor(value: unknown): SleepPolicy["keepAwake"] {
  if (value === undefined || value === null) return undefined;
  const said: readonly unknown[] = Array.isArray(value) ? value : [value];
  const words = said.map((word) => (typeof word === "string" ? word.toLowerCase() : word));
  const unknown = words.find((word) => !KEEP_AWAKE.some((known) => known === word));
  if (!Array.isArray(value) || unknown !== undefined)
    throw invalidSpec(
      "sleep.keepAwake",
      `must be a list of ${KEEP_AWAKE.join(", ")}; connections of tenants keep it awake in any case`,
    );
  const known = KEEP_AWAKE.filter((word) => words.includes(word));
  return known.length === 0 ? undefined : known;
}

function calendar(field: "sleepAt" | "wakeAt", value: unknown): string | undefined {
  if (value === undefined || value === null || value === "") return undefined;
  const read = typeof value === "string" && value.length <= 100 ? parseCalendarEvent(value) : undefined;
  if (typeof value === "string" && read?.ok === true) return value;
  const why = read?.ok === false ? `: ${read.error}` : "";
  throw invalidSpec(`sleep.${field}`, `must be a calendar event such as 'mon..fri 20:00'${why}`);
}
