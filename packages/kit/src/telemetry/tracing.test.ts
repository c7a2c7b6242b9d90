import { AppError } from "@gpve/contracts/errors.ts";
import fc from "fast-check";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import type { Exec } from "../exec.ts";
import { REDACTED } from "../redact.ts";
import { type OtlpReceiver, startOtlpReceiver } from "../testing/otlp-receiver.ts";
import { checkSpan, childSpan, queuedSpan, span } from "./span.ts";
import { tracedExec } from "./traced-exec.ts";
import { parseTraceparent, traceparent, withTraceparent } from "./traceparent.ts";
import { startTracing, type Tracing } from "./tracing.ts";

const PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

describe("with a collector", () => {
  let collector: OtlpReceiver;
  let tracing: Tracing;

  beforeEach(async () => {
    collector = await startOtlpReceiver();
    tracing = startTracing({
      endpoint: collector.url,
      serviceName: "gpve-server",
      serviceVersion: "1.2.3",
      headers: { "x-tenant": "t" },
      attributes: { "gpve.node": "n1" },
    });
  });

  afterEach(async () => {
    await tracing.shutdown();
    await collector.close();
  });

  test("spans arrive with their parents, role and resource", async () => {
    await span(
      "outer",
      { a: 1, list: ["x", "y"], none: undefined, yes: true },
      async () => span("inner", {}, async () => new Promise((resolve) => setImmediate(resolve))),
      "server",
    );
    await tracing.flush();
    const outer = collector.named("outer");
    expect(collector.named("inner")).toMatchObject({ parentSpanId: outer.spanId, traceId: outer.traceId });
    expect(outer).toMatchObject({
      parentSpanId: "",
      kind: 2,
      attributes: { a: 1, list: ["x", "y"], yes: true },
      resource: { "service.name": "gpve-server", "service.version": "1.2.3", "gpve.node": "n1" },
    });
    expect(collector.headers[0]).toMatchObject({ "x-tenant": "t" });
  });

  test("checks and commands are traced below whoever makes them, and not by themselves", async () => {
    expect(checkSpan("alone", () => 1)).toBe(1);
    expect(await childSpan("alone", {}, () => 2)).toBe(2);
    await span("request", {}, async () => {
      checkSpan("authorise", () => undefined);
      expect(() =>
        checkSpan("validate", () => {
          throw new Error("no");
        }),
      ).toThrow("no");
      await childSpan("qmp stop", {}, () => undefined);
    });
    await tracing.flush();
    const { spanId } = collector.named("request");
    expect(collector.named("authorise").parentSpanId).toBe(spanId);
    expect(collector.named("validate")).toMatchObject({ parentSpanId: spanId, statusCode: 2 });
    expect(collector.named("qmp stop")).toMatchObject({ parentSpanId: spanId, kind: 3 });
    expect(collector.spans.some(({ name }) => name === "alone")).toBe(false);
  });

  test("queued work is below the request that asked for it, or a trace of its own where it waited long", async () => {
    const asked = { traceparent: PARENT, queuedAt: 1_000_000 };
    await queuedSpan("soon", {}, { ...asked, startedAt: 1_001_000 }, async () => span("inside", {}, () => 1));
    await queuedSpan("late", {}, { ...asked, startedAt: 1_060_000 }, () => Promise.resolve());
    await queuedSpan("own", {}, { ...asked, traceparent: undefined, startedAt: 1 }, () => Promise.resolve());
    await tracing.flush();
    const [, traceId = "", parent = ""] = PARENT.split("-");
    expect(collector.named("soon")).toMatchObject({ traceId, parentSpanId: parent });
    expect(collector.named("queue soon")).toMatchObject({ traceId, parentSpanId: parent });
    expect(collector.named("inside").parentSpanId).toBe(collector.named("soon").spanId);
    expect(collector.named("late")).toMatchObject({ parentSpanId: "", links: [traceId] });
    expect(collector.named("late").traceId).not.toBe(traceId);
    expect(collector.named("own").parentSpanId).toBe("");
  });

  test("a failure is recorded without its secrets and thrown on", async () => {
    await expect(span("bad", {}, () => Promise.reject(new Error("no: password=abc")))).rejects.toThrow("abc");
    await tracing.flush();
    expect(collector.named("bad")).toMatchObject({
      statusCode: 2,
      statusMessage: `no: password=${REDACTED}`,
    });
  });

  test("a trace goes on under the caller's span", async () => {
    const seen = await withTraceparent(PARENT, () => span("here", {}, () => traceparent()));
    await tracing.flush();
    const here = collector.named("here");
    expect(here).toMatchObject({
      traceId: "0af7651916cd43dd8448eb211c80319c",
      parentSpanId: "b7ad6b7169203331",
    });
    expect(seen).toBe(`00-${here.traceId}-${here.spanId}-01`);
    expect(traceparent()).toBeUndefined();
  });

  test("a caller's decision not to sample is followed", async () => {
    await withTraceparent(PARENT.replace(/01$/, "00"), () => span("unseen", {}, () => traceparent()));
    await tracing.flush();
    expect(collector.spans).toEqual([]);
  });

  test("every executed command is a span with redacted arguments and its exit code", async () => {
    const fake: Exec = async (file) => {
      if (file === "fail") throw new AppError("internal.error", "fail failed", { data: { exitCode: 3 } });
      if (file === "absent") throw new AppError("feature.unsupported", "absent is not installed");
      return { code: 0, stdout: "", stderr: "" };
    };
    const run = tracedExec(fake);
    await run("/usr/bin/tool", ["--password", "abc", "go"]);
    await expect(run("fail", [])).rejects.toThrow("fail failed");
    await expect(run("absent", [])).rejects.toThrow("not installed");
    await tracing.flush();
    expect(collector.named("exec tool").attributes).toEqual({
      "process.executable.path": "/usr/bin/tool",
      "process.command_args": ["--password", REDACTED, "go"],
      "process.exit.code": 0,
    });
    expect(collector.named("exec fail")).toMatchObject({
      statusCode: 2,
      attributes: { "process.exit.code": 3 },
    });
    expect(collector.named("exec absent").attributes).not.toHaveProperty("process.exit.code");
  });

  test("after the shutdown nothing is traced", async () => {
    await span("last", {}, () => undefined);
    await tracing.shutdown();
    expect(collector.named("last").name).toBe("last");
    expect(await span("later", {}, () => traceparent())).toBeUndefined();
    expect(collector.spans).toHaveLength(1);
  });
});

test("a ratio of zero keeps nothing that begins here", async () => {
  const collector = await startOtlpReceiver();
  const tracing = startTracing({ endpoint: `${collector.url}/v1/traces`, serviceName: "s", sampleRatio: 0 });
  await span("unseen", {}, () => undefined);
  await tracing.shutdown();
  expect(collector.spans).toEqual([]);
  await collector.close();
});

test("a collector that is away costs a warning, not the work nor the shutdown", async () => {
  const warnings: string[] = [];
  const collector = await startOtlpReceiver();
  await collector.close();
  const tracing = startTracing({
    endpoint: collector.url,
    serviceName: "s",
    log: { warn: (_fields, message) => warnings.push(message) },
  });
  expect(await span("lost", {}, () => 5)).toBe(5);
  await tracing.flush();
  await tracing.shutdown();
  expect(warnings.join("\n")).toContain("tracing:");
});

describe("off", () => {
  test.each([{}, { endpoint: "" }])("without an endpoint spans only run their work %o", async (options) => {
    const tracing = startTracing({ serviceName: "s", ...options });
    expect(tracing.enabled).toBe(false);
    expect(await withTraceparent(PARENT, () => span("x", {}, () => 7))).toBe(7);
    await tracing.flush();
    await tracing.shutdown();
  });

  test("a bad endpoint or ratio is refused by name", () => {
    expect(() => startTracing({ serviceName: "s", endpoint: "collector" })).toThrow("not an http(s) URL");
    expect(() => startTracing({ serviceName: "s", endpoint: "ftp://c" })).toThrow("not an http(s) URL");
    expect(() => startTracing({ serviceName: "s", endpoint: "http://c", sampleRatio: 2 })).toThrow("between");
  });
});

describe("traceparent", () => {
  test.each([
    "",
    "00",
    "ff-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
    "00-00000000000000000000000000000000-b7ad6b7169203331-01",
    "00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01",
    "00-0AF7651916CD43DD8448EB211C80319C-b7ad6b7169203331-01",
    `${PARENT}-more`,
  ])("refuses %j", (header) => expect(parseTraceparent(header)).toBeUndefined());

  test("takes what later versions append", () => {
    expect(parseTraceparent(`${PARENT.replace(/^00/, "01")}-more`)?.spanId).toBe("b7ad6b7169203331");
  });

  test("any text is either refused or a valid span context", () => {
    fc.assert(
      fc.property(fc.string(), (text) => {
        const parsed = parseTraceparent(text);
        expect(parsed === undefined || /^[0-9a-f]{32}$/.test(parsed.traceId)).toBe(true);
        expect(withTraceparent(text, () => 1)).toBe(1);
      }),
    );
  });
});
