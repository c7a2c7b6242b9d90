// Why the scheduler should avoid a node. Written KEY, KEY=VALUE or KEY=VALUE:EFFECT, or as an object.
import { given } from "@gpve/contracts/given.ts";

export type TaintEffect = "NoSchedule" | "PreferNoSchedule";

export interface Taint {
  readonly key: string;
  readonly value?: string;
  readonly effect: TaintEffect;
}

/** `text` has the form that the schema checks. */
export function parseTaint(text: string): Taint {
  const [, key = "", value, effect] = /^([^=:]+)(?:=([^:]*))?(?::(.+))?$/.exec(text) ?? [];
  return {
    key,
    ...given({ value }),
    effect: effect === "PreferNoSchedule" ? "PreferNoSchedule" : "NoSchedule",
  };
}

export function formatTaint({ key, value, effect }: Taint): string {
  return `${key}${value === undefined ? "" : `=${value}`}:${effect}`;
}
