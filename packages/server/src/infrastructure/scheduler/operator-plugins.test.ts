import { createServer, type IncomingMessage, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { ClusterState } from "@gpve/domain/scheduler/cluster-state.ts";
import { explain } from "@gpve/domain/scheduler/explain.ts";
import type { PlacementRequest } from "@gpve/domain/scheduler/model.ts";
import { readPolicy } from "@gpve/domain/scheduler/policy.ts";
import { aNode, aRequest } from "@gpve/domain/scheduler/testing/placement-world.ts";
import { silentLogger } from "@gpve/kit/logger.ts";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { celPlugins } from "./cel-plugins.ts";
import { httpExtenders } from "./http-extenders.ts";

const state = new ClusterState([
  aNode("n1", { labels: { site: "a" } }),
  aNode("n2", { labels: { site: "b" } }),
  aNode("n3"),
]);
const request: PlacementRequest = aRequest("vm/1", {}, { labels: { site: "a" } });

describe("expressions in CEL", () => {
  const found = (expressions: Parameters<typeof celPlugins>[0]) =>
    explain(state, request, readPolicy({}, celPlugins(expressions, silentLogger)));

  it("refuse nodes in the operator's words, and where they cannot be worked out", () => {
    const filter = "node.labels.site == request.labels.site";
    const { node, verdicts } = found([{ name: "site", filter, says: "another site", weight: 1 }]);
    expect(node).toBe("n1");
    expect(verdicts.map(({ refusals }) => refusals[0]?.why)).toEqual([
      undefined,
      "another site",
      expect.stringContaining("expression site of server.yaml cannot be worked out for it"),
    ]);
    expect(found([{ name: "odd", filter: "node.name", weight: 1 }]).verdicts[0]?.refusals[0]?.why).toContain(
      "neither true nor false",
    );
  });

  it("score nodes; what cannot be worked out counts nothing", () => {
    const score = 'node.labels.site == "b" ? 100 : int(0)';
    const { node, verdicts } = found([{ name: "b-first", score, weight: 50 }]);
    expect(node).toBe("n2");
    expect(verdicts.find((each) => each.node === "n3")?.parts?.["b-first"]).toBe(0);
    expect(
      found([{ name: "room", score: "100.0 - node.cpuUsed * request.cpu", weight: 1 }]).verdicts[0]?.parts?.[
        "room"
      ],
    ).toBe(100);
  });

  it.each([
    ["100 - node.guests", 100],
    ["50 * request.cpu / node.cpu", 50 / 8],
    ["node.guests % 2 + 7", 7],
    ["-1 + node.cpu", 7],
  ])("reckon with whole numbers as an operator writes them: %s", (score, points) => {
    expect(found([{ name: "e", score, weight: 1 }]).verdicts[0]?.parts?.["e"]).toBeCloseTo(points, 0);
    const filter = `${score} > 0 && request.cpu * 2 <= node.cpu`;
    expect(found([{ name: "e", filter, weight: 1 }]).feasible).toBe(3);
  });

  it("that fail are told once, not for every node of every decision", () => {
    const warnings: unknown[] = [];
    const log = { warn: (...said: unknown[]) => warnings.push(said) };
    const plugins = celPlugins([{ name: "e", score: "node.nothing + 1", weight: 1 }], log as never);
    for (let round = 0; round < 3; round++) explain(state, request, readPolicy({}, plugins));
    expect(warnings).toHaveLength(1);
  });

  it.each([
    [{ name: "x", weight: 1 }, "scheduler.expressions[0] (x): has neither filter nor score"],
    [{ name: "x", filter: "node.", weight: 1 }, "scheduler.expressions[0] (x).filter: cannot be read"],
    [{ name: "x", score: "process.exit()", weight: 1 }, "scheduler.expressions[0] (x).score"],
  ])("are read at start: %j", (expression, text) => {
    expect(() => celPlugins([expression], silentLogger)).toThrow(text);
  });
});

describe("an extender", () => {
  let server: Server;
  let answer: (asked: unknown) => {
    readonly status?: number;
    readonly body?: string;
    readonly hangs?: boolean;
  };
  let asked: { readonly nodes: readonly { readonly node: string }[] } | undefined;
  beforeEach(async () => {
    server = createServer((req: IncomingMessage, res) => {
      let text = "";
      req.on("data", (chunk: Buffer) => (text += chunk.toString()));
      req.on("end", () => {
        asked = JSON.parse(text) as typeof asked;
        const { status = 200, body = "{}", hangs } = answer(asked);
        if (hangs !== true) res.writeHead(status).end(body);
      });
    });
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  });
  afterEach(() => server.closeAllConnections());
  afterEach(() => new Promise((resolve) => server.close(resolve)));

  const ask = (onFailure: "refuse" | "ignore" = "refuse", timeoutMs = 5_000) => {
    const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/place`;
    const extend = httpExtenders([{ name: "rack", url, timeoutMs, weight: 9, onFailure }], {
      view: { state: () => state },
      log: silentLogger,
    });
    return extend?.(request, ["n1", "n2"], new AbortController().signal) ?? Promise.resolve([]);
  };

  it("is asked about the nodes that are left, and refuses and scores", async () => {
    answer = () => ({ body: JSON.stringify({ refused: { n1: "no power" }, scores: { n2: 10, n3: 90 } }) });
    const plugins = await ask();
    expect(asked?.nodes.map(({ node }) => node)).toEqual(["n1", "n2"]);
    const { node, verdicts } = explain(state, request, readPolicy({}, plugins));
    expect(node).toBe("n3");
    expect(verdicts.at(-1)?.refusals).toEqual([{ filter: "rack", why: "rack: no power" }]);
    answer = () => ({});
    expect(explain(state, request, readPolicy({}, await ask())).feasible).toBe(3);
  });

  it.each([
    ["is down", () => ({ status: 503 }), "it answered 503"],
    ["talks nonsense", () => ({ body: "<html>" }), "failed within 5000 ms"],
    [
      "answers with what is no answer",
      () => ({ body: '{"refused": ["n1"]}' }),
      "refused of its answer is no object",
    ],
  ])("that %s stops placements, or is left out, as configured", async (_what, given, text) => {
    answer = given;
    await expect(ask()).rejects.toThrow(text);
    expect(await ask("ignore")).toEqual([]);
  });

  it("that answers without end, or with points that are none, does no harm", async () => {
    answer = () => ({ body: `{"scores": {"n1": "${"9".repeat(5 * 1024 * 1024)}"}}` });
    await expect(ask()).rejects.toThrow("its answer is too long");
    answer = () => ({ body: '{"scores": {"n1": 1e999, "n2": "100", "n3": -5}}' });
    const { verdicts } = explain(state, request, readPolicy({}, await ask()));
    expect(verdicts.map(({ parts }) => parts?.["rack"])).toEqual([0, 0, 0]);
    answer = () => ({ body: '{"scores": {"n1": 1e9}}' });
    const scored = explain(state, request, readPolicy({}, await ask())).verdicts;
    expect(scored.find(({ node }) => node === "n1")?.parts?.["rack"]).toBe(100);
  });

  it("that does not answer in time is not waited for", async () => {
    answer = () => ({ hangs: true });
    await expect(ask("refuse", 50)).rejects.toThrow(/failed within 50 ms/);
  });
});
