import type { GuestUsage } from "@gpve/domain/guest/guest-processes.ts";

/** Of processes that are one thing together. */
export function sumUsage(parts: readonly GuestUsage[]): {
  readonly memoryBytes: number;
  readonly cpuSeconds: number;
} {
  return {
    memoryBytes: parts.reduce((sum, { memoryAnonBytes }) => sum + memoryAnonBytes, 0),
    cpuSeconds: parts.reduce((sum, { cpuNs }) => sum + cpuNs, 0) / 1e9,
  };
}
