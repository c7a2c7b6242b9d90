// What servers call on this node.
import { create } from "@bufbuild/protobuf";
import type { HandlerContext, ServiceImpl } from "@connectrpc/connect";
import { AppError } from "@gpve/contracts/errors.ts";
import {
  ReplyHeadSchema,
  type AgentService,
  type CallRequest,
  type ReplyHead,
  type TunnelOpen,
} from "@gpve/contracts/gen/proto/gpve/agent/v1/agent_pb.ts";
import type { AgentCall, AgentConnection, AgentReply } from "@gpve/domain/node/agent-port.ts";
import type { Actor } from "@gpve/domain/request/context.ts";
import { toConnectError } from "@gpve/kit/grpc/app-error.ts";

/** Opens a two-way byte stream to something on this node. */
export interface TunnelOpener {
  open(
    request: { target: string; params: Readonly<Record<string, unknown>>; authid: string | undefined },
    input: AsyncIterable<Uint8Array>,
    signal: AbortSignal,
  ): Promise<{ opened: unknown; output: AsyncIterable<Uint8Array> }>;
}

export interface AgentServiceDeps {
  readonly agent: AgentConnection;
  readonly tunnels?: TunnelOpener;
}

export function createAgentService(deps: AgentServiceDeps): ServiceImpl<typeof AgentService> {
  return {
    async call(request, context) {
      try {
        const reply = await deps.agent.call(decodeCall(request), context.signal);
        if (reply.download !== undefined) {
          throw new AppError("feature.unsupported", `${request.route} answers with bytes: use CallStream`);
        }
        return { head: encodeHead(reply) };
      } catch (err) {
        throw toConnectError(err);
      }
    },
    async *callStream(request, context) {
      try {
        if (request.call === undefined) throw new AppError("request.invalid", "no call in the message");
        const reply = await deps.agent.call(decodeCall(request.call), context.signal);
        yield { part: { case: "head", value: encodeHead(reply) } };
        if (reply.download === undefined) return;
        for await (const chunk of reply.download.body) yield { part: { case: "chunk", value: chunk } };
      } catch (err) {
        throw toConnectError(err);
      }
    },
    async *tunnel(requests, context: HandlerContext) {
      try {
        const parts = requests[Symbol.asyncIterator]();
        const first = await parts.next();
        if (first.done === true || first.value.part.case !== "open") {
          throw new AppError("request.invalid", "a tunnel starts with what it is to");
        }
        const open = first.value.part.value;
        const tunnels = deps.tunnels ?? agentTunnels(deps.agent, open);
        if (tunnels === undefined) {
          throw new AppError(
            "feature.unsupported",
            `this node offers no tunnel to ${JSON.stringify(open.target)}`,
          );
        }
        const { opened, output } = await tunnels.open(decodeOpen(open), chunksOf(parts), context.signal);
        yield { part: { case: "openedJson", value: JSON.stringify(opened ?? null) } };
        for await (const chunk of output) yield { part: { case: "chunk", value: chunk } };
      } catch (err) {
        throw toConnectError(err);
      }
    },
  };
}

/** The agent's own tunnels, where it has any. */
function agentTunnels(agent: AgentConnection, open: TunnelOpen): TunnelOpener | undefined {
  if (agent.tunnel === undefined) return undefined;
  const tunnel = agent.tunnel.bind(agent);
  const actor = actorOf(open.actor);
  return {
    open: ({ target, params }, input, signal) =>
      tunnel({ target, params, actor, requestId: open.requestId }, input, signal),
  };
}

async function* chunksOf(
  parts: AsyncIterator<{
    part: { case: "chunk"; value: Uint8Array } | { case: "open" | undefined; value?: unknown };
  }>,
): AsyncGenerator<Uint8Array> {
  for (let next = await parts.next(); next.done !== true; next = await parts.next()) {
    if (next.value.part.case === "chunk") yield next.value.part.value;
  }
}

function decodeCall(request: CallRequest): AgentCall {
  return {
    route: request.route,
    params: parseObject(request.paramsJson),
    source: request.source === "json" ? "json" : "form",
    actor: actorOf(request.actor),
    requestId: request.requestId,
    clientAddress: request.clientAddress,
    ...(request.traceparent === undefined ? {} : { traceparent: request.traceparent }),
  };
}

function actorOf(actor: CallRequest["actor"]): Actor | undefined {
  if (actor === undefined) return undefined;
  const { userid, authid, tokenid } = actor;
  return { userid, authid, ...(tokenid === undefined ? {} : { tokenid }) };
}

function decodeOpen(open: TunnelOpen): {
  target: string;
  params: Readonly<Record<string, unknown>>;
  authid: string | undefined;
} {
  return { target: open.target, params: parseObject(open.paramsJson), authid: open.actor?.authid };
}

function encodeHead(reply: AgentReply): ReplyHead {
  const { download } = reply;
  return create(ReplyHeadSchema, {
    dataJson: reply.data === undefined ? "" : JSON.stringify(reply.data),
    ...(reply.total === undefined ? {} : { total: BigInt(reply.total) }),
    ...(reply.changes === undefined ? {} : { changes: reply.changes }),
    ...(download === undefined
      ? {}
      : {
          download: {
            contentType: download.contentType,
            ...(download.fileName === undefined ? {} : { fileName: download.fileName }),
          },
        }),
  });
}

function parseObject(json: string): Readonly<Record<string, unknown>> {
  let value: unknown;
  try {
    value = JSON.parse(json === "" ? "{}" : json);
  } catch (cause) {
    throw new AppError("request.invalid", "parameters are not JSON", { cause });
  }
  if (typeof value !== "object" || value === null || Array.isArray(value)) {
    throw new AppError("request.invalid", "parameters are not an object");
  }
  return value as Record<string, unknown>;
}
