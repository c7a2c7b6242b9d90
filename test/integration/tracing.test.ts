// One request, three places: HTTP handler, agent, executed command. The collector must see one tree.
import { decided } from "@gpve/domain/access/testing/decided.ts";
import { once } from "node:events";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { createServer, request } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { given } from "@gpve/contracts/given.ts";
import { FakeAgent } from "@gpve/domain/node/testing/fake-agent.ts";
import { exec } from "@gpve/kit/exec.ts";
import { span } from "@gpve/kit/telemetry/span.ts";
import { tracedExec } from "@gpve/kit/telemetry/traced-exec.ts";
import { traceparent, withTraceparent } from "@gpve/kit/telemetry/traceparent.ts";
import { startTracing } from "@gpve/kit/telemetry/tracing.ts";
import { startOtlpReceiver } from "@gpve/kit/testing/otlp-receiver.ts";
import { build } from "esbuild";
import { expect, test } from "vitest";

test("a request is traced from HTTP through the agent to the executed command", async () => {
  const collector = await startOtlpReceiver();
  const tracing = startTracing({ endpoint: collector.url, serviceName: "gpve" });
  const run = tracedExec(exec);
  const agent = new FakeAgent({
    answer: (call) =>
      withTraceparent(call.traceparent, () =>
        span(
          `agent ${call.decision.route}`,
          {},
          async () => ({ data: (await run("uname", ["-s"])).stdout.trim() }),
          "server",
        ),
      ),
  });
  const server = createServer((incoming, response) => {
    void withTraceparent(String(incoming.headers["traceparent"] ?? ""), () =>
      span(
        `${incoming.method} ${incoming.url}`,
        {},
        async () => {
          const parent = traceparent();
          const reply = await agent.call(
            {
              decision: decided("GET /nodes/{node}/status"),
              params: {},
              requestId: "r1",
              clientAddress: "127.0.0.1",
              ...given({ traceparent: parent }),
            },
            new AbortController().signal,
          );
          response.end(JSON.stringify(reply));
        },
        "server",
      ),
    );
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address() as AddressInfo;
  const client = request({
    port,
    path: "/nodes/n1/status",
    headers: { traceparent: "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01" },
  }).end();
  const [response] = (await once(client, "response")) as [NodeJS.ReadableStream];
  response.resume();
  await once(response, "end");
  server.close();
  await tracing.shutdown();

  const http = collector.named("GET /nodes/n1/status");
  const onAgent = collector.named("agent GET /nodes/{node}/status");
  const command = collector.named("exec uname");
  expect(http.parentSpanId).toBe("b7ad6b7169203331");
  expect(onAgent.parentSpanId).toBe(http.spanId);
  expect(command.parentSpanId).toBe(onAgent.spanId);
  expect(new Set(collector.spans.map((one) => one.traceId))).toEqual(new Set([http.traceId]));
  await collector.close();
});

test("tracing and logging work inside a CommonJS bundle", async () => {
  const dir = mkdtempSync(join(tmpdir(), "gpve-bundle-"));
  const collector = await startOtlpReceiver();
  const entry = join(dir, "entry.ts");
  const kit = resolve("packages/kit/src");
  writeFileSync(
    entry,
    `import { createLogger } from "${kit}/logger.ts";
     import { span } from "${kit}/telemetry/span.ts";
     import { startTracing } from "${kit}/telemetry/tracing.ts";
     const log = createLogger({ component: "bundle" });
     const tracing = startTracing({ endpoint: process.argv[2], serviceName: "bundle", log });
     span("bundled", {}, () => log.info({}, "inside")).then(() => tracing.shutdown());`,
  );
  await build({
    entryPoints: [entry],
    bundle: true,
    platform: "node",
    format: "cjs",
    target: "node24",
    outfile: join(dir, "out.cjs"),
    logLevel: "silent",
  });
  const { stdout } = await exec(process.execPath, [join(dir, "out.cjs"), collector.url]);
  const line = JSON.parse(stdout) as Record<string, unknown>;
  expect(line).toMatchObject({ message: "inside", component: "bundle" });
  expect(collector.named("bundled").traceId).toBe(line["trace_id"]);
  await collector.close();
  rmSync(dir, { recursive: true });
});
