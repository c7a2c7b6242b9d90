import { messageOf } from "@gpve/contracts/errors.ts";
import {
  context,
  INVALID_SPAN_CONTEXT,
  type Link,
  ProxyTracerProvider,
  ROOT_CONTEXT,
  type Span,
  SpanKind,
  SpanStatusCode,
  trace,
} from "@opentelemetry/api";
import { parseTraceparent } from "./traceparent.ts";
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
  links: readonly Link[] = [],
): Promise<T> {
  if (!tracingIsOn()) return untraced(work);
  const tracer = trace.getTracer("gpve");
  return tracer.startActiveSpan(
    name,
    { kind: KINDS[role], attributes: attributesOf(attributes), links: [...links] },
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

/** A check that ends at once, inside the span of whoever makes it. */
export function checkSpan<T>(name: string, work: () => T): T {
  if (!tracingIsOn() || trace.getActiveSpan() === undefined) return work();
  return trace.getTracer("gpve").startActiveSpan(name, (current) => {
    try {
      return work();
    } catch (err) {
      current.setStatus({ code: SpanStatusCode.ERROR, message: redactText(messageOf(err)) });
      throw err;
    } finally {
      current.end();
    }
  });
}

/** Only where somebody's work is traced: what is done again and again by itself would drown it. */
export function childSpan<T>(
  name: string,
  attributes: SpanAttributes,
  work: (current: Span) => T | Promise<T>,
): Promise<T> {
  return trace.getActiveSpan() === undefined ? untraced(work) : span(name, attributes, work, "client");
}

export interface Queued {
  /** Of the request that asked for the work. */
  readonly traceparent: string | undefined;
  readonly queuedAt: number;
  readonly startedAt: number;
}

/** Longer than that nobody waits for the end of a request: the work is a trace of its own, which names the request's. */
const LINKED_AFTER_MS = 10_000;

/** Work that was asked for earlier: below the request that did, with the time it waited. */
export function queuedSpan<T>(
  name: string,
  attributes: SpanAttributes,
  { traceparent, queuedAt, startedAt }: Queued,
  work: () => Promise<T>,
): Promise<T> {
  if (!tracingIsOn()) return work();
  const asked = traceparent === undefined ? undefined : parseTraceparent(traceparent);
  const parent = asked === undefined ? ROOT_CONTEXT : trace.setSpanContext(ROOT_CONTEXT, asked);
  const isLate = startedAt - queuedAt > LINKED_AFTER_MS;
  if (asked !== undefined)
    trace.getTracer("gpve").startSpan(`queue ${name}`, { startTime: queuedAt }, parent).end(startedAt);
  const links = isLate && asked !== undefined ? [{ context: asked }] : [];
  return context.with(isLate ? ROOT_CONTEXT : parent, () => span(name, attributes, work, "internal", links));
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
