import { createClient, createRouterTransport } from "@connectrpc/connect";
import { AppError } from "@gpve/contracts/errors.ts";
import { AgentService } from "@gpve/contracts/gen/proto/gpve/agent/v1/agent_pb.ts";
import type { AgentCall, AgentConnection } from "@gpve/domain/node/agent-port.ts";
import { appErrorOf } from "@gpve/kit/grpc/app-error.ts";
import { beforeEach, describe, expect, test } from "vitest";
import { createAgentService, type TunnelOpener } from "./agent-service.ts";

const calls: AgentCall[] = [];
const agent: AgentConnection = {
  node: "n1",
  call: (call) => {
    calls.push(call);
    return Promise.resolve({ data: undefined });
  },
};
const echo: TunnelOpener = {
  open: (request, input) => {
    if (request.target !== "echo") throw new AppError("object.not_found", `no ${request.target}`);
    return Promise.resolve({ opened: { for: request.authid, ...request.params }, output: input });
  },
};
const client = createClient(
  AgentService,
  createRouterTransport((router) =>
    router.service(AgentService, createAgentService({ agent, tunnels: echo })),
  ),
);
const base = { requestId: "r", clientAddress: "::1", paramsJson: "", route: "GET /x" };

beforeEach(() => {
  calls.length = 0;
});

describe("the agent's gRPC service", () => {
  test("hands over who calls, how, and in which trace", async () => {
    const actor = { userid: "joe@pve", tokenid: "ci", authid: "joe@pve!ci" };
    const traceparent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    const answer = await client.call({ ...base, actor, traceparent, source: "json" });
    expect(answer.head?.dataJson).toBe("");
    await client.call({ ...base, actor: { userid: "root@pam", authid: "root@pam" } });
    await client.call(base);
    const common = { route: "GET /x", params: {}, requestId: "r", clientAddress: "::1" };
    expect(calls).toEqual([
      { ...common, actor, traceparent, source: "json" },
      { ...common, actor: { userid: "root@pam", authid: "root@pam" }, source: "form" },
      { ...common, actor: undefined, source: "form" },
    ]);
  });

  test("a stream needs a call", async () => {
    const parts = client.callStream({})[Symbol.asyncIterator]();
    await expect(parts.next()).rejects.toThrow(/no call/);
  });

  test("a tunnel carries bytes both ways after it was opened", async () => {
    const actor = { userid: "joe@pve", authid: "joe@pve" };
    const seen: string[] = [];
    const parts = client.tunnel(
      (async function* () {
        yield {
          part: { case: "open" as const, value: { target: "echo", paramsJson: '{"vmid":100}', actor } },
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

  test("a tunnel to nowhere, or without a target, is refused", async () => {
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
    expect(await failure({ case: "open", value: { target: "moon" } })).toBe("object.not_found");
    expect(await failure({ case: "chunk", value: new Uint8Array() })).toBe("request.invalid");
  });
});
