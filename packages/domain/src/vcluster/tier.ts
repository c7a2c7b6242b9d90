export const TIERS = ["Starter", "Standard", "Performance", "Enterprise"] as const;
export type Tier = (typeof TIERS)[number];
