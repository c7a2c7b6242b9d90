// Which Kubernetes each Talos minor runs, by the limits in Talos' own code.
import { AppError } from "@gpve/contracts/errors.ts";
import type { ContractName } from "./contracts.ts";

interface KubernetesRange {
  readonly oldestMinor: number;
  readonly newestMinor: number;
  readonly recommended: string;
}

export const kubernetesRanges: Readonly<Record<ContractName, KubernetesRange>> = {
  "v1.11": { oldestMinor: 29, newestMinor: 34, recommended: "v1.34.0" },
  "v1.12": { oldestMinor: 30, newestMinor: 35, recommended: "v1.35.4" },
  "v1.13": { oldestMinor: 31, newestMinor: 36, recommended: "v1.36.3" },
  // Newer ones are allowed, but were not released when this was written.
  "v1.14": { oldestMinor: 32, newestMinor: 37, recommended: "v1.36.3" },
};

/** Refuses a Kubernetes version that this Talos cannot run. */
export function checkKubernetesVersion(contract: ContractName, version: string): void {
  const [, major, minor] = /^v?(\d+)\.(\d+)\.\d+/.exec(version) ?? [];
  const { oldestMinor, newestMinor, recommended } = kubernetesRanges[contract];
  if (major === "1" && Number(minor) >= oldestMinor && Number(minor) <= newestMinor) return;
  throw new AppError(
    "config.invalid",
    `Talos ${contract} runs Kubernetes 1.${oldestMinor} to 1.${newestMinor}, not ${version}; ${recommended} is a good choice`,
  );
}
