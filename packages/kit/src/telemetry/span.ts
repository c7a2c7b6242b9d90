import { messageOf } from "@gpve/contracts/errors.ts";
import {
  INVALID_SPAN_CONTEXT,
  ProxyTracerProvider,
  type Span,
  SpanKind,
  SpanStatusCode,
  trace,
} from "@opentelemetry/api";
import { redactText } from "../redact.ts";

export type SpanAttributes = Readonly<
  Record<string, string | number | boolean | readonly string[] | undefined>
>;

/** `server` receives a call from another process, `client` makes one, `internal` is everything else. */
export type SpanRole = "internal" | "server" | "client";

const KINDS = { internal: SpanKind.INTERNAL, server: SpanKind.SERVER, client: SpanKind.CLIENT };

/**
 * Runs work inside a span that is the parent of all spans made within. A failure is recorded and thrown on.
 * Attribute values are the caller's to choose and never secrets; error texts are redacted here.
 */
export function span<T>(
  name: string,
  attributes: SpanAttributes,
  work: (current: Span) => T | Promise<T>,
  role: SpanRole = "internal",
): Promise<T> {
  if (!tracingIsOn()) return untraced(work);
  const tracer = trace.getTracer("gpve");
  return tracer.startActiveSpan(
    name,
    { kind: KINDS[role], attributes: attributesOf(attributes) },
    async (current) => {
      try {
        return await work(current);
      } catch (err) {
        current.setStatus({ code: SpanStatusCode.ERROR, message: redactText(messageOf(err)) });
        throw err;
      } finally {
        current.end();
      }
    },
  );
}

const NO_SPAN = trace.wrapSpanContext(INVALID_SPAN_CONTEXT);

async function untraced<T>(work: (current: Span) => T | Promise<T>): Promise<T> {
  return work(NO_SPAN);
}

const nothing = new ProxyTracerProvider().getDelegate();

/** Asked each time, because tracing may start after this module was loaded; a no-op span still costs microseconds. */
export function tracingIsOn(): boolean {
  const provider = trace.getTracerProvider();
  return !(provider instanceof ProxyTracerProvider) || provider.getDelegate() !== nothing;
}

function attributesOf(attributes: SpanAttributes): Record<string, string | number | boolean | string[]> {
  const given: Record<string, string | number | boolean | string[]> = {};
  for (const [name, value] of Object.entries(attributes)) {
    if (value !== undefined) given[name] = typeof value === "object" ? [...value] : value;
  }
  return given;
}
