// The datacenter's options that high availability goes by: `ha` and `crs`, as PVE writes them.
import type { HaSettings, SchedulerMode, ShutdownPolicy } from "./model.ts";

const policies: readonly ShutdownPolicy[] = ["freeze", "failover", "conditional", "migrate"];
const modes: readonly SchedulerMode[] = ["basic", "static", "dynamic"];

export function haSettings(options: Readonly<Record<string, unknown>>): HaSettings {
  const ha = pairs(options["ha"]);
  const crs = pairs(options["crs"]);
  const percent = (key: string, fallback: number): number => Number(crs.get(key) ?? fallback) / 100;
  return {
    shutdownPolicy: policies.find((each) => each === ha.get("shutdown_policy")) ?? "conditional",
    scheduler: modes.find((each) => each === crs.get("ha")) ?? "basic",
    rebalanceOnStart: isOn(crs.get("ha-rebalance-on-start")),
    autoRebalance: isOn(crs.get("ha-auto-rebalance"))
      ? {
          threshold: percent("ha-auto-rebalance-threshold", 30),
          margin: percent("ha-auto-rebalance-margin", 10),
          holdRounds: Number(crs.get("ha-auto-rebalance-hold-duration") ?? 3),
          method: crs.get("ha-auto-rebalance-method") === "topsis" ? "topsis" : "bruteforce",
        }
      : undefined,
  };
}

/** "a=1,b=2" as it was stored, or already taken apart. */
function pairs(value: unknown): ReadonlyMap<string, string> {
  if (typeof value === "object" && value !== null)
    return new Map(Object.entries(value).map(([key, each]) => [key, String(each)]));
  if (typeof value !== "string") return new Map();
  return new Map(
    value.split(",").map((pair) => {
      const at = pair.indexOf("=");
      return [pair.slice(0, at).trim(), pair.slice(at + 1).trim()];
    }),
  );
}

function isOn(value: string | undefined): boolean {
  return ["1", "yes", "on", "true"].includes(value ?? "");
}
