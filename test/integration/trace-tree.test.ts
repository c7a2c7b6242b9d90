// One request through the product's own processes, server and agent apart: the collector sees one tree, from HTTP over
// the queue down to the commands that the node runs and what it says to QEMU.
import { afterAll, expect, test } from "vitest";
import { startOtlpReceiver, type ReceivedSpan } from "@gpve/kit/testing/otlp-receiver.ts";
import { apiOf } from "../support/gpve.ts";
import { endGuestsOf } from "../support/left-guests.ts";
import { startParts, type Parts } from "../support/parts.ts";

let parts: Parts | undefined;
afterAll(async () => {
  if (parts !== undefined) endGuestsOf(parts.agentData);
  await parts?.stop();
});

const TRACE = "4bf92f3577b34da6a3ce929d0e0e4736";
const CREATE = "POST /nodes/{node}/qemu";

test("a VM that is created and started is one tree, down to qemu-img and QMP", async () => {
  const collector = await startOtlpReceiver();
  const tracing = { otlpEndpoint: collector.url };
  parts = await startParts(undefined, {
    server: { tracing: { ...tracing, sampleRatio: 0 } },
    agent: { tracing: { ...tracing, sampleRatio: 0 } },
  });
  const api = apiOf(parts.credentials);
  await api("POST", "/pools", { poolid: "acme" });
  const v1 = apiOf(parts.credentials, undefined, "/api/v1");
  const quota = {
    apiVersion: "gpve.io/v1",
    kind: "ResourceQuota",
    metadata: { name: "acme", namespace: "acme" },
    spec: { limits: { vmCount: 5 } },
  };
  const body = JSON.stringify(quota);
  const made = await v1("POST", "/resourcequotas", {}, { "Content-Type": "application/json" }, body);
  expect([made.status, made.text]).toEqual([201, expect.any(String)]);

  const params = { vmid: "100", memory: "32", scsi0: "local:0.01,format=qcow2", pool: "acme", start: "1" };
  const headers = { traceparent: `00-${TRACE}-b7ad6b7169203331-01` };
  const created = await api("POST", "/nodes/n1/qemu", params, headers);
  expect([created.status, created.text]).toEqual([200, expect.stringContaining("UPID:n1")]);

  const spans = (): ReceivedSpan[] => collector.spans.filter(({ traceId }) => traceId === TRACE);
  const end = performance.now() + 90_000;
  while (!(has(spans(), /^qmp /) && has(spans(), /^operation qmcreate$/) && has(spans(), /^agent /))) {
    if (performance.now() > end) throw new Error(`spans are missing:\n${tree(spans()).join("\n")}`);
    await new Promise((done) => setTimeout(done, 250));
  }
  const lines = tree(spans());
  console.log(lines.join("\n"));
  const below = (name: RegExp, above: RegExp): void => {
    const found = spans().filter((one) => name.test(one.name));
    const isBelow = (one: ReceivedSpan): boolean =>
      ancestors(spans(), one).some((each) => above.test(each.name));
    expect([name.source, found.length > 0 && found.every(isBelow)]).toEqual([name.source, true]);
  };
  const http = spans().find(({ name }) => name === CREATE);
  expect(http?.parentSpanId).toBe("b7ad6b7169203331");
  below(/^authorise$/, /^POST /);
  below(/^quota$/, /^POST /);
  below(/^validate$/, /^POST /);
  below(/^agent POST \/nodes\/\{node\}\/qemu$/, /^POST /);
  below(/^queue operation qmcreate$/, /^agent /);
  below(/^operation qmcreate$/, /^agent /);
  below(/^step /, /^operation /);
  below(/^exec qemu-img$/, /^step /);
  below(/^exec qemu-system-x86_64$/, /^step /);
  below(/^qmp /, /^step /);
  // Nothing else was traced: nobody else asked for it.
  expect(collector.spans.every(({ traceId }) => traceId === TRACE)).toBe(true);
  await collector.close();
});

function has(spans: readonly ReceivedSpan[], name: RegExp): boolean {
  return spans.some((one) => name.test(one.name));
}

function ancestors(spans: readonly ReceivedSpan[], of: ReceivedSpan): ReceivedSpan[] {
  const parent = spans.find(({ spanId }) => spanId === of.parentSpanId);
  return parent === undefined ? [] : [parent, ...ancestors(spans, parent)];
}

function tree(spans: readonly ReceivedSpan[], parent?: string, indent = ""): string[] {
  const known = new Set(spans.map(({ spanId }) => spanId));
  const here = spans.filter(({ parentSpanId }) =>
    parent === undefined ? !known.has(parentSpanId) : parentSpanId === parent,
  );
  return here.flatMap((one) => [`${indent}${one.name}`, ...tree(spans, one.spanId, `${indent}  `)]);
}
