// OpenTelemetry set up by hand: manual spans only, because module hooks do not exist inside a bundle.
// Without an endpoint nothing is installed and every span is a no-op.
import { AppError, messageOf } from "@gpve/contracts/errors.ts";
import { context, diag, DiagLogLevel, trace } from "@opentelemetry/api";
import { AsyncLocalStorageContextManager } from "@opentelemetry/context-async-hooks";
import { OTLPTraceExporter } from "@opentelemetry/exporter-trace-otlp-proto";
import { resourceFromAttributes } from "@opentelemetry/resources";
import {
  BatchSpanProcessor,
  ParentBasedSampler,
  TraceIdRatioBasedSampler,
  TracerProvider,
} from "@opentelemetry/sdk-trace";
import { redactText } from "../redact.ts";

export interface TracingOptions {
  /** OTLP over HTTP, "http://collector:4318"; `/v1/traces` is added to a bare host. Absent or "" = off. */
  readonly endpoint?: string;
  /** "gpve-server", "gpve-agent". */
  readonly serviceName: string;
  readonly serviceVersion?: string;
  /** Share of traces that begin here and are kept, 0 to 1. A caller's own decision is followed. Default 1. */
  readonly sampleRatio?: number;
  /** Sent to the collector with every batch; often its credentials. */
  readonly headers?: Readonly<Record<string, string>>;
  /** More facts about this process: node, instance id. */
  readonly attributes?: Readonly<Record<string, string>>;
  /** How long finished spans are gathered before they are sent. */
  readonly batchDelayMs?: number;
  /** Told when the collector does not take spans. */
  readonly log?: { warn(fields: Readonly<Record<string, unknown>>, message: string): void };
}

export interface Tracing {
  readonly enabled: boolean;
  /** Sends what is waiting; resolves even when the collector is away. */
  flush(): Promise<void>;
  /** The same, and then spans are no-ops again. */
  shutdown(): Promise<void>;
}

const OFF: Tracing = { enabled: false, flush: async () => {}, shutdown: async () => {} };

/** Waiting for a collector that is away must not hold up a shutdown. */
const EXPORT_TIMEOUT_MS = 3_000;

/** Once per process, from compose. */
export function startTracing(options: TracingOptions): Tracing {
  if (options.endpoint === undefined || options.endpoint === "") return OFF;
  const url = tracesUrl(options.endpoint);
  const ratio = options.sampleRatio ?? 1;
  if (!(ratio >= 0 && ratio <= 1)) {
    throw new AppError("config.invalid", `tracing sample ratio ${ratio} is not between 0 and 1`);
  }
  const exporter = new OTLPTraceExporter({
    url,
    headers: { ...options.headers },
    timeoutMillis: EXPORT_TIMEOUT_MS,
  });
  const provider = new TracerProvider({
    resource: resourceFromAttributes({
      "service.name": options.serviceName,
      ...(options.serviceVersion === undefined ? {} : { "service.version": options.serviceVersion }),
      ...options.attributes,
    }),
    sampler: new ParentBasedSampler({ root: new TraceIdRatioBasedSampler(ratio) }),
    spanLimits: { attributeValueLengthLimit: 4_096, attributeCountLimit: 64 },
    // The queue is bounded, so an absent collector costs spans and not memory.
    spanProcessors: [
      new BatchSpanProcessor({
        exporter,
        maxQueueSize: 4_096,
        scheduledDelayMillis: options.batchDelayMs ?? 2_000,
        exportTimeoutMillis: EXPORT_TIMEOUT_MS,
      }),
    ],
  });
  const { log } = options;
  if (log !== undefined) {
    const tell = (message: string, ...rest: unknown[]): void =>
      log.warn({ detail: rest.map(messageOf).join(" ") }, `tracing: ${redactText(message)}`);
    const quiet = (): void => undefined;
    diag.setLogger(
      { error: tell, warn: tell, info: quiet, debug: quiet, verbose: quiet },
      { logLevel: DiagLogLevel.WARN, suppressOverrideMessage: true },
    );
  }
  const contexts = new AsyncLocalStorageContextManager().enable();
  context.setGlobalContextManager(contexts);
  trace.setGlobalTracerProvider(provider);
  // Spans that did not get through are lost, which is no reason to fail what was traced.
  const lost = (err: unknown): void =>
    log?.warn({ detail: redactText(messageOf(err)) }, "tracing: the collector did not take the last spans");
  return {
    enabled: true,
    flush: async () => {
      await provider.forceFlush().catch(lost);
    },
    shutdown: async () => {
      await provider.shutdown().catch(lost);
      trace.disable();
      context.disable();
      diag.disable();
    },
  };
}

function tracesUrl(endpoint: string): string {
  const url = URL.parse(endpoint);
  if (url === null || (url.protocol !== "http:" && url.protocol !== "https:")) {
    throw new AppError("config.invalid", `tracing endpoint "${redactText(endpoint)}" is not an http(s) URL`);
  }
  if (url.pathname === "/" || url.pathname === "") url.pathname = "/v1/traces";
  return url.href;
}
