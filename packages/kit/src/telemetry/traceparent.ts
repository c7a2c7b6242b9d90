// W3C trace context (https://www.w3.org/TR/trace-context/) across processes: HTTP in, gRPC and memory to agents.
import {
  context,
  isSpanContextValid,
  ROOT_CONTEXT,
  type SpanContext,
  trace,
  TraceFlags,
} from "@opentelemetry/api";

/** The active span as a `traceparent` header; undefined when nothing is traced. */
export function traceparent(): string | undefined {
  const active = trace.getActiveSpan()?.spanContext();
  if (active === undefined || !isSpanContextValid(active)) return undefined;
  return `00-${active.traceId}-${active.spanId}-${active.traceFlags.toString(16).padStart(2, "0")}`;
}

/** Runs work as a child of the caller's span. A header that does not parse is as good as none. */
export function withTraceparent<T>(header: string | undefined, work: () => T): T {
  const remote = header === undefined ? undefined : parseTraceparent(header);
  if (remote === undefined) return work();
  return context.with(trace.setSpanContext(ROOT_CONTEXT, remote), work);
}

export function parseTraceparent(header: string): SpanContext | undefined {
  const match = /^([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?$/.exec(header);
  if (match === null) return undefined;
  const [, version, traceId = "", spanId = "", flags = "", more] = match;
  // ff is forbidden; version 00 has exactly four parts, later ones may have more.
  if (version === "ff" || (version === "00" && more !== undefined)) return undefined;
  const parsed: SpanContext = {
    traceId,
    spanId,
    traceFlags: Number.parseInt(flags, 16) & TraceFlags.SAMPLED,
    isRemote: true,
  };
  return isSpanContextValid(parsed) ? parsed : undefined;
}
