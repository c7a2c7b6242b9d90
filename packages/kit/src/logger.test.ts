import { existsSync, mkdtempSync, readFileSync, renameSync, rmSync, statSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { RequestLogger } from "@gpve/domain/request/context.ts";
import { context, ROOT_CONTEXT, trace, TraceFlags } from "@opentelemetry/api";
import { AsyncLocalStorageContextManager } from "@opentelemetry/context-async-hooks";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { formatLogText } from "./log-text.ts";
import { createLogger, type Logger, type LoggerOptions, silentLogger } from "./logger.ts";
import { FakeClock } from "./testing/fake-clock.ts";

let dir: string;
let log: Logger;
let file: string;

beforeEach(() => {
  dir = mkdtempSync(join(tmpdir(), "gpve-log-"));
  file = join(dir, "logs", "server.log");
});

afterEach(() => {
  log.close();
  rmSync(dir, { recursive: true });
});

function open(options: Partial<LoggerOptions> = {}): Logger {
  log = createLogger({ component: "server", output: file, clock: new FakeClock(0), ...options });
  return log;
}

function lines(path = file): Record<string, unknown>[] {
  return readFileSync(path, "utf8")
    .split("\n")
    .filter((line) => line !== "")
    .map((line) => JSON.parse(line) as Record<string, unknown>);
}

describe("a line", () => {
  test("has the agreed fields", () => {
    open().info({ vmid: 100 }, "guest started");
    expect(lines()).toEqual([
      {
        timestamp: "1970-01-01T00:00:00.000Z",
        level: "info",
        component: "server",
        vmid: 100,
        message: "guest started",
      },
    ]);
  });

  test("names the active span", () => {
    context.setGlobalContextManager(new AsyncLocalStorageContextManager().enable());
    const span = trace.wrapSpanContext({
      traceId: "0af7651916cd43dd8448eb211c80319c",
      spanId: "b7ad6b7169203331",
      traceFlags: TraceFlags.SAMPLED,
    });
    open();
    context.with(trace.setSpan(ROOT_CONTEXT, span), () => log.info({}, "inside"));
    log.info({}, "outside");
    context.disable();
    expect(lines()[0]).toMatchObject({
      trace_id: "0af7651916cd43dd8448eb211c80319c",
      span_id: "b7ad6b7169203331",
    });
    expect(lines()[1]).not.toHaveProperty("trace_id");
  });

  test("carries a child's component and resource, once", () => {
    open().child({ component: "vm", resource: "qemu/100" }).warn({ resource: "qemu/101" }, "hm");
    expect(lines()[0]).toMatchObject({ component: "vm", resource: "qemu/101", level: "warn" });
    expect(readFileSync(file, "utf8").match(/"resource"/g)).toHaveLength(1);
  });

  test("keeps its own fields apart from a caller's of the same name", () => {
    open().error({ message: "theirs", level: 3 }, "ours");
    expect(lines()[0]).toMatchObject({ message: "ours", message_: "theirs", level: "error", level_: 3 });
  });

  test("never shows a secret", () => {
    open().info({ body: { password: "hunter2" }, url: "/x?ticket=hunter2" }, "with token=hunter2");
    expect(readFileSync(file, "utf8")).not.toContain("hunter2");
  });

  test("is in a file that others cannot read", () => {
    open().info({}, "x");
    expect(statSync(file).mode & 0o007).toBe(0);
  });
});

describe("levels", () => {
  test("lines below the level are not written; the level can change for all children", () => {
    const child = open({ level: "warn" }).child({ component: "x" });
    child.info({}, "no");
    expect(child.enabled("info")).toBe(false);
    log.setLevel("debug");
    child.debug({}, "yes");
    expect(lines().map((line) => line["message"])).toEqual(["yes"]);
  });
});

describe("destination", () => {
  test("SIGHUP opens the file again after it was moved away", () => {
    open().info({}, "first");
    renameSync(file, `${file}.1`);
    process.emit("SIGHUP");
    log.info({}, "second");
    expect(lines(`${file}.1`).map((line) => line["message"])).toEqual(["first"]);
    expect(lines().map((line) => line["message"])).toEqual(["second"]);
  });

  test("a closed logger is silent and no longer listens to signals", () => {
    const before = process.listenerCount("SIGHUP");
    open().info({}, "last");
    log.close();
    expect(process.listenerCount("SIGHUP")).toBe(before);
    log.error({}, "too late");
    log.reopen();
    log.close();
    expect(lines().map((line) => line["message"])).toEqual(["last"]);
  });

  test.skipIf(!existsSync("/dev/full"))("a full disk neither throws nor ends the process", async () => {
    open({ output: "/dev/full" });
    const write = (): void => {
      for (let i = 0; i < 50; i++) log.info({ i }, "no room");
    };
    expect(write).not.toThrow();
    // An error that nobody hears would end this process.
    await new Promise((resolve) => setImmediate(resolve));
  });

  test("standard output needs no file and is left open", () => {
    const out = createLogger({ component: "x", output: "stderr", level: "error" });
    out.reopen();
    out.info({}, "not shown");
    out.close();
    expect(process.stderr.writableEnded).toBe(false);
    open();
  });
});

describe("text format", () => {
  test("is a line for a person", () => {
    open({ format: "text" }).warn({ node: "n1", why: "no route" }, "node is away");
    expect(readFileSync(file, "utf8")).toBe(
      '1970-01-01T00:00:00.000Z WARN  server: node is away (node=n1 why="no route")\n',
    );
  });

  test("cannot be made to forge a second line or colour the terminal", () => {
    const line = JSON.stringify({ level: "info", message: 'a\nINFO b \u001b[31m \u009b c\\d "q"' });
    expect(formatLogText(line)).toBe(' INFO  : a\\nINFO b \\u001b[31m \\u009b c\\d "q"\n');
  });
});

test("a logger can be given to requests; the silent one says nothing", () => {
  const forRequests: RequestLogger = silentLogger;
  for (const level of ["debug", "info", "warn", "error"] as const) forRequests[level]({}, "x");
  silentLogger.setLevel("debug");
  silentLogger.reopen();
  silentLogger.close();
  expect(silentLogger.child({}).enabled("error")).toBe(false);
  open();
});
