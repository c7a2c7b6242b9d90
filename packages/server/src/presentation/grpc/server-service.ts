// What agents call: join, hello, heartbeat, reports, certificate renewal.
import type { HandlerContext, ServiceImpl } from "@connectrpc/connect";
import { AGENT_PROTOCOL, agreeProtocol } from "@gpve/contracts/agent/protocol.ts";
import { AppError, isAppError, messageOf } from "@gpve/contracts/errors.ts";
import type { ServerService } from "@gpve/contracts/gen/proto/gpve/agent/v1/server_pb.ts";
import { decodeReport, type DecodedReport } from "@gpve/domain/node/decode-report.ts";
import type { RequestLogger } from "@gpve/domain/request/context.ts";
import { parseBoundedJson } from "@gpve/kit/bounded-json.ts";
import type { Clock } from "@gpve/kit/clock.ts";
import { toConnectError } from "@gpve/kit/grpc/app-error.ts";
import type { MemoryNodeBoard } from "../../application/node/board.ts";
import type { Membership } from "../../application/node/membership.ts";
import { addressOf, requirePeer, type AgentPeer } from "./peer.ts";

export interface ServerServiceDeps {
  readonly membership: Membership;
  readonly board: MemoryNodeBoard;
  readonly clock: Clock;
  readonly log: RequestLogger;
  readonly serverVersion: string;
  readonly clusterName: string;
  readonly heartbeatIntervalMs?: number;
  readonly reportIntervalMs?: number;
}

export function createServerService(deps: ServerServiceDeps): ServiceImpl<typeof ServerService> {
  const { membership, board, clock } = deps;
  const answer = async <T>(work: () => Promise<T>): Promise<T> => {
    try {
      return await work();
    } catch (err) {
      throw toConnectError(err);
    }
  };
  /** The calling node; the name it states must be the one on its certificate. */
  const memberOf = (context: HandlerContext, stated?: string): AgentPeer => {
    const peer = requirePeer(context);
    if (stated !== undefined && stated !== peer.node) {
      throw new AppError("access.denied", `certificate is for node ${peer.node}, not for ${stated}`);
    }
    if (membership.member(peer.node, peer.fingerprint) === undefined) {
      throw new AppError(
        "access.denied",
        `node ${peer.node} is not a member of this cluster, or has a newer certificate`,
      );
    }
    return peer;
  };
  return {
    join: (request, context) =>
      answer(async () => {
        agreeProtocol(AGENT_PROTOCOL, request.protocol ?? { min: 0, max: 0 });
        const address = request.address === "" ? addressOf(context) : request.address;
        const identity = await membership.join({
          token: request.token,
          node: request.node,
          address,
          port: request.port,
          csrPem: request.csrPem,
        });
        deps.log.info({ node: request.node, address }, "node joined");
        return { certificatePem: identity.certPem, caPem: identity.caPem, clusterName: deps.clusterName };
      }),
    hello: (request, context) =>
      answer(async () => {
        const peer = memberOf(context, request.node);
        const protocol = agreeProtocol(AGENT_PROTOCOL, request.protocol ?? { min: 0, max: 0 });
        const address = request.address === "" ? addressOf(context) : request.address;
        await membership.hello(peer.node, peer.fingerprint, address, request.port);
        board.heartbeat(peer.node);
        return {
          protocol,
          serverVersion: deps.serverVersion,
          clusterName: deps.clusterName,
          heartbeatIntervalMs: deps.heartbeatIntervalMs ?? 2_000,
          reportIntervalMs: deps.reportIntervalMs ?? 2_500,
        };
      }),
    heartbeat: (request, context) =>
      answer(() => {
        const peer = memberOf(context, request.node);
        board.heartbeat(peer.node);
        const lifetime = peer.notAfter - peer.notBefore;
        return Promise.resolve({
          serverTimeMs: BigInt(Math.trunc(clock.now())),
          wantsFacts: board.wantsFacts(peer.node),
          renewCertificate: peer.outdated || peer.notAfter - clock.now() < lifetime / 3,
        });
      }),
    report: (request, context) =>
      answer(() => {
        const { report, leftOut } = parseReport(request.reportJson);
        memberOf(context, report.node);
        if (leftOut.length > 0) {
          const [first] = leftOut;
          deps.log.warn(
            { node: report.node, first, count: leftOut.length },
            "parts of a report are left out",
          );
        }
        board.accept(report);
        return Promise.resolve({});
      }),
    renewCertificate: (request, context) =>
      answer(async () => {
        const peer = memberOf(context, request.node);
        const identity = await membership.renew(peer.node, peer.fingerprint, request.csrPem);
        return { certificatePem: identity.certPem, caPem: identity.caPem };
      }),
  };
}

function parseReport(json: string): DecodedReport {
  try {
    return decodeReport(parseBoundedJson(json));
  } catch (cause) {
    if (isAppError(cause)) throw cause;
    throw new AppError("request.invalid", `this is no report of a node: ${messageOf(cause)}`, { cause });
  }
}
