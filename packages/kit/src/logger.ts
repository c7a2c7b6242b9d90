// Structured logs: one JSON object per line with the fields timestamp, level, message, trace_id, span_id,
// component, resource, and whatever the caller adds. Plain destination: worker transports do not survive bundling.
import { isSpanContextValid, trace } from "@opentelemetry/api";
import pino from "pino";
import { type Clock, systemClock } from "./clock.ts";
import { formatLogText } from "./log-text.ts";
import { redact, redactText } from "./redact.ts";

export type LogLevel = "debug" | "info" | "warn" | "error";

export type LogFields = Readonly<Record<string, unknown>>;

export interface LoggerOptions {
  /** Which part speaks: "server", "agent", "store". */
  readonly component: string;
  readonly level?: LogLevel;
  /** `json` for machines, `text` for a person at a terminal. */
  readonly format?: "json" | "text";
  /** "stdout", "stderr" or a file, which is opened again on SIGHUP so that it can be rotated. */
  readonly output?: string;
  readonly clock?: Clock;
}

/** Fits `RequestLogger`. Everything written passes the redaction of secrets. */
export interface Logger {
  debug(fields: LogFields, message: string): void;
  info(fields: LogFields, message: string): void;
  warn(fields: LogFields, message: string): void;
  error(fields: LogFields, message: string): void;
  /** The same destination with more fields on every line, often `component` or `resource` ("qemu/100"). */
  child(fields: LogFields): Logger;
  enabled(level: LogLevel): boolean;
  /** For this logger and all that share its destination. */
  setLevel(level: LogLevel): void;
  /** Opens the file anew; nothing happens for a stream. */
  reopen(): void;
  /** Flushes, closes a file and stops listening to SIGHUP. */
  close(): void;
}

/** Lines kept in memory while the destination does not take them; beyond it new ones are dropped. */
const MAX_WAITING_BYTES = 1024 * 1024;

export function createLogger(options: LoggerOptions): Logger {
  const clock = options.clock ?? systemClock;
  const output = options.output ?? "stdout";
  const isFile = output !== "stdout" && output !== "stderr";
  const dest = isFile ? output : output === "stdout" ? 1 : 2;
  // Synchronous: a line is out before the code after it runs, which is what one wants to read after a crash.
  const stream = pino.destination({
    dest,
    sync: true,
    mkdir: true,
    append: true,
    mode: 0o640,
    maxLength: MAX_WAITING_BYTES,
  });
  // A full disk or a closed terminal must not stop the server; there is nowhere left to say so.
  stream.on("error", () => undefined);
  const sink =
    options.format === "text" ? { write: (line: string) => stream.write(formatLogText(line)) } : stream;
  const lines = pino(
    {
      base: null,
      level: options.level ?? "info",
      messageKey: "message",
      formatters: { level: (label) => ({ level: label }) },
      timestamp: () => `,"timestamp":"${new Date(clock.now()).toISOString()}"`,
    },
    sink,
  );
  let closed = false;
  const reopen = (): void => {
    if (isFile && !closed) stream.reopen();
  };
  if (isFile) process.on("SIGHUP", reopen);
  const close = (): void => {
    // Work that ends after the shutdown may still speak; it speaks into the void instead of throwing.
    lines.level = "silent";
    process.off("SIGHUP", reopen);
    if (!isFile || closed) return;
    closed = true;
    stream.end();
  };
  return loggerOn(lines, { component: options.component }, reopen, close);
}

/** Logs nothing; for tests and for tools that speak to people. */
export const silentLogger: Logger = {
  debug: () => undefined,
  info: () => undefined,
  warn: () => undefined,
  error: () => undefined,
  child: () => silentLogger,
  enabled: () => false,
  setLevel: () => undefined,
  reopen: () => undefined,
  close: () => undefined,
};

function loggerOn(lines: pino.Logger, bound: LogFields, reopen: () => void, close: () => void): Logger {
  const write =
    (level: LogLevel) =>
    (fields: LogFields, message: string): void => {
      if (lines.isLevelEnabled(level)) lines[level](lineOf(bound, fields), redactText(message));
    };
  return {
    debug: write("debug"),
    info: write("info"),
    warn: write("warn"),
    error: write("error"),
    child: (fields) => loggerOn(lines, { ...bound, ...fields }, reopen, close),
    enabled: (level) => lines.isLevelEnabled(level),
    setLevel: (level) => {
      lines.level = level;
    },
    reopen,
    close,
  };
}

/** Names the line itself uses; a caller's field of that name gets an underscore, so that no key is twice in a line. */
const RESERVED = new Set(["timestamp", "level", "message", "trace_id", "span_id"]);

function lineOf(bound: LogFields, fields: LogFields): Record<string, unknown> {
  const line: Record<string, unknown> = {};
  const span = trace.getActiveSpan()?.spanContext();
  if (span !== undefined && isSpanContextValid(span)) {
    line["trace_id"] = span.traceId;
    line["span_id"] = span.spanId;
  }
  const clean = redact({ ...bound, ...fields }) as Record<string, unknown>;
  for (const [name, value] of Object.entries(clean)) line[RESERVED.has(name) ? `${name}_` : name] = value;
  return line;
}
