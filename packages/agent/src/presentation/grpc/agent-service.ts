// What servers call on this node.
import { given } from "@gpve/contracts/given.ts";
import { create } from "@bufbuild/protobuf";
import type { HandlerContext, ServiceImpl } from "@connectrpc/connect";
import { AppError, isAppError } from "@gpve/contracts/errors.ts";
import {
  ReplyHeadSchema,
  type AgentService,
  type CallRequest,
  type ReplyHead,
  type TunnelOpen,
} from "@gpve/contracts/gen/proto/gpve/agent/v1/agent_pb.ts";
import { permissionDenied } from "@gpve/domain/access/access-view.ts";
import { decisionFromServer, noDecision, type Decision } from "@gpve/domain/access/decision.ts";
import { isSystemWork } from "@gpve/domain/access/system-work.ts";
import type { AgentCall, AgentConnection, AgentReply, TunnelRequest } from "@gpve/domain/node/agent-port.ts";
import type { Actor } from "@gpve/domain/request/context.ts";
import { parseBoundedJson } from "@gpve/kit/bounded-json.ts";
import { toConnectError } from "@gpve/kit/grpc/app-error.ts";

export interface AgentServiceDeps {
  readonly agent: AgentConnection;
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
        if (deps.agent.tunnel === undefined)
          throw new AppError("feature.unsupported", `this node offers no ${JSON.stringify(open.target)}`);
        const { opened, output } = await deps.agent.tunnel(decodeOpen(open), chunksOf(parts), context.signal);
        yield { part: { case: "openedJson", value: JSON.stringify(opened ?? null) } };
        for await (const chunk of output) yield { part: { case: "chunk", value: chunk } };
      } catch (err) {
        throw toConnectError(err);
      }
    },
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
    decision: decodeDecision(request.decision, request.route, request.actor),
    params: parseObject(request.paramsJson),
    source: request.source === "json" ? "json" : "form",
    requestId: request.requestId,
    clientAddress: request.clientAddress,
    ...given({ traceparent: request.traceparent }),
  };
}

function decodeOpen(open: TunnelOpen): TunnelRequest {
  return {
    decision: decodeDecision(open.decision, open.target, open.actor),
    params: parseObject(open.paramsJson),
    requestId: open.requestId,
  };
}

/** What the call says of itself must be what was decided. */
function decodeDecision(
  decision: CallRequest["decision"],
  route: string,
  actor: CallRequest["actor"],
): Decision {
  if (decision === undefined) throw noDecision();
  const { judged, work } = decision;
  if (decision.route !== route || decision.actor?.authid !== actor?.authid)
    throw permissionDenied(
      `decided for ${decision.route} by ${decision.actor?.authid ?? "nobody"}, called ${route} by ${actor?.authid ?? "nobody"}`,
    );
  if (work !== "" && !isSystemWork(work)) throw permissionDenied(`${work} is no work of the system`);
  return decisionFromServer({
    route,
    actor: decodeActor(decision.actor),
    judged,
    ...(work === "" ? {} : { work }),
  });
}

function decodeActor(actor: CallRequest["actor"]): Actor | undefined {
  if (actor === undefined) return undefined;
  const { userid, authid, tokenid } = actor;
  return { userid, authid, ...given({ tokenid }) };
}

function encodeHead(reply: AgentReply): ReplyHead {
  const { download } = reply;
  return create(ReplyHeadSchema, {
    dataJson: reply.data === undefined ? "" : JSON.stringify(reply.data),
    ...(reply.total === undefined ? {} : { total: BigInt(reply.total) }),
    ...given({ changes: reply.changes }),
    ...(download === undefined
      ? {}
      : {
          download: {
            contentType: download.contentType,
            ...given({ fileName: download.fileName }),
          },
        }),
  });
}

function parseObject(json: string): Readonly<Record<string, unknown>> {
  let value: unknown;
  try {
    value = parseBoundedJson(json === "" ? "{}" : json);
  } catch (cause) {
    if (isAppError(cause)) throw cause;
    throw new AppError("request.invalid", "parameters are not JSON", { cause });
  }
  if (typeof value !== "object" || value === null || Array.isArray(value)) {
    throw new AppError("request.invalid", "parameters are not an object");
  }
  return value as Record<string, unknown>;
}
