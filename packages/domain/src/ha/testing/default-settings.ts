import type { HaSettings } from "../model.ts";

/** What a datacenter without options has. */
export const defaultSettings: HaSettings = {
  shutdownPolicy: "conditional",
  scheduler: "basic",
  rebalanceOnStart: false,
  autoRebalance: undefined,
};
