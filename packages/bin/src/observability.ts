import { given } from "@gpve/contracts/given.ts";
import { PRODUCT_VERSION } from "@gpve/contracts/version.ts";
import { createLogger, type Logger, type LogLevel } from "@gpve/kit/logger.ts";
import { startMetricsListener, type MetricsListener } from "@gpve/kit/telemetry/metrics-listener.ts";
import { createMetrics, type Metrics } from "@gpve/kit/telemetry/metrics.ts";
import { startTracing, type Tracing } from "@gpve/kit/telemetry/tracing.ts";

export interface ObservabilitySettings {
  readonly component: "server" | "agent" | "gpve";
  readonly level?: LogLevel;
  readonly format?: "json" | "text";
  readonly output: string;
  readonly otlpEndpoint?: string | undefined;
  readonly sampleRatio?: number;
  /** Where metrics are served; absent = nowhere. */
  readonly metrics?: { readonly address: string; readonly path?: string } | undefined;
  readonly attributes?: Readonly<Record<string, string>>;
}

export interface Observability {
  readonly log: Logger;
  readonly metrics: Metrics;
  readonly metricsUrl: string | undefined;
  close(): Promise<void>;
}

export async function startObservability(settings: ObservabilitySettings): Promise<Observability> {
  const log = createLogger({
    component: settings.component,
    output: settings.output,
    ...given({ level: settings.level, format: settings.format }),
  });
  const tracing: Tracing = startTracing({
    serviceName: settings.component === "gpve" ? "gpve" : `gpve-${settings.component}`,
    serviceVersion: PRODUCT_VERSION,
    log,
    ...given({
      endpoint: settings.otlpEndpoint,
      sampleRatio: settings.sampleRatio,
      attributes: settings.attributes,
    }),
  });
  const metrics = createMetrics({ version: PRODUCT_VERSION });
  const listener: MetricsListener | undefined =
    settings.metrics === undefined
      ? undefined
      : await startMetricsListener({ ...settings.metrics, metrics, log });
  return {
    log,
    metrics,
    metricsUrl: listener?.url,
    async close() {
      await listener?.close();
      await tracing.shutdown();
      metrics.close();
      log.close();
    },
  };
}
