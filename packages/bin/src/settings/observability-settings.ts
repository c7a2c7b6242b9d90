import type { AgentConfiguration, ServerConfiguration } from "@gpve/kit/config/configuration.ts";
import type { ObservabilitySettings } from "../observability.ts";

export type FileObservability = Omit<ObservabilitySettings, "component" | "attributes">;

/** `logging`, `metrics` and `tracing`, which both files have. */
export function observabilitySettings({
  logging,
  metrics,
  tracing,
}: Pick<ServerConfiguration | AgentConfiguration, "logging" | "metrics" | "tracing">): FileObservability {
  return {
    level: logging.level,
    format: logging.format,
    output: logging.output ?? "stdout",
    otlpEndpoint: tracing.otlpEndpoint,
    sampleRatio: tracing.sampleRatio,
    metrics: metrics.enabled ? { address: metrics.address, path: metrics.path } : undefined,
  };
}
