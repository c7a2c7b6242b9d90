import { createClient, createRouterTransport } from "@connectrpc/connect";
import { AgentService } from "@gpve/contracts/gen/proto/gpve/agent/v1/agent_pb.ts";
import { FakeAgent } from "@gpve/domain/node/testing/fake-agent.ts";
import { appErrorOf } from "@gpve/kit/grpc/app-error.ts";
import { beforeEach, describe, expect, test } from "vitest";
import { createAgentService } from "./agent-service.ts";

const agent = new FakeAgent({
  open: ({ decision, params }, input) => ({
    opened: { for: decision.actor?.authid, ...params },
    output: input,
  }),
});
const { calls } = agent;
const client = createClient(
  AgentService,
  createRouterTransport((router) => router.service(AgentService, createAgentService({ agent }))),
);
const route = "GET /nodes/{node}/status";
const base = { requestId: "r", clientAddress: "::1", paramsJson: "", route };
const joe = { userid: "joe@pve", authid: "joe@pve" };

beforeEach(() => {
  calls.length = 0;
});

describe("the agent's gRPC service", () => {
  test("hands over who calls, how, and in which trace", async () => {
    const actor = { userid: "joe@pve", tokenid: "ci", authid: "joe@pve!ci" };
    const traceparent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    const decision = (who: typeof actor | typeof joe) => ({ route, actor: who, judged: { node: "n1" } });
    const answer = await client.call({
      ...base,
      actor,
      traceparent,
      source: "json",
      decision: decision(actor),
    });
    expect(answer.head?.dataJson).toBe("");
    await client.call({ ...base, actor: joe, decision: decision(joe) });
    await client.call({ ...base, decision: { route } });
    const common = { params: {}, requestId: "r", clientAddress: "::1" };
    expect(calls).toMatchObject([
      { ...common, decision: decision(actor), traceparent, source: "json" },
      { ...common, decision: decision(joe), source: "form" },
      { ...common, decision: { route, actor: undefined, judged: {} }, source: "form" },
    ]);
  });

  test("refuses a call without a decision, and one whose decision is about something else", async () => {
    const refusal = async (more: object): Promise<string | undefined> =>
      client.call({ ...base, actor: joe, ...more }).then(
        () => undefined,
        (err: unknown) => appErrorOf(err)?.message,
      );
    const decision = { route, actor: joe };
    expect(await refusal({})).toContain("carries no decision");
    expect(await refusal({ decision: { ...decision, route: "GET /nodes/{node}/dns" } })).toContain(
      "decided for GET /nodes/{node}/dns by joe@pve",
    );
    const ann = { userid: "ann@pve", authid: "ann@pve" };
    expect(await refusal({ decision: { ...decision, actor: ann } })).toContain("by ann@pve");
    expect(await refusal({ decision: { route } })).toContain("by nobody");
    expect(await refusal({ decision: { ...decision, work: "backup-job" } })).toContain(
      "backup-job is not to call",
    );
    expect(await refusal({ decision: { ...decision, work: "moon" } })).toContain("is no work of the system");
    expect(calls).toEqual([]);
    expect(await refusal({ decision })).toBeUndefined();
  });

  test("a stream needs a call", async () => {
    const parts = client.callStream({})[Symbol.asyncIterator]();
    await expect(parts.next()).rejects.toThrow(/no call/);
  });

  test("a tunnel carries bytes both ways after it was opened", async () => {
    const target = "TUNNEL /gpve/nodes/{node}/shell";
    const decision = { route: target, actor: joe };
    const seen: string[] = [];
    const parts = client.tunnel(
      (async function* () {
        yield {
          part: {
            case: "open" as const,
            value: { target, paramsJson: '{"vmid":100}', actor: joe, decision },
          },
        };
        for (const word of ["one", "two"]) {
          yield await Promise.resolve({ part: { case: "chunk" as const, value: Buffer.from(word) } });
        }
      })(),
    );
    for await (const { part } of parts) {
      seen.push(part.case === "chunk" ? Buffer.from(part.value).toString() : String(part.value));
    }
    expect(seen).toEqual(['{"for":"joe@pve","vmid":100}', "one", "two"]);
  });

  test("a tunnel that nobody decided, or without a target, is refused", async () => {
    const failure = async (
      part: { case: "open"; value: { target: string } } | { case: "chunk"; value: Uint8Array },
    ) => {
      const parts = client.tunnel(
        (async function* () {
          yield await Promise.resolve({ part });
        })(),
      );
      return parts[Symbol.asyncIterator]()
        .next()
        .then(
          () => undefined,
          (err: unknown) => appErrorOf(err)?.code,
        );
    };
    expect(await failure({ case: "open", value: { target: "moon" } })).toBe("access.denied");
    expect(await failure({ case: "chunk", value: new Uint8Array() })).toBe("request.invalid");
  });
});
