// What agents call: join, hello, heartbeat, reports, certificate renewal, handing guests over.
import type { HandlerContext, ServiceImpl } from "@connectrpc/connect";
import { AGENT_PROTOCOL, agreeProtocol } from "@gpve/contracts/agent/protocol.ts";
import { AppError, isAppError, messageOf } from "@gpve/contracts/errors.ts";
import { given } from "@gpve/contracts/given.ts";
import type { HelloRequest, ServerService } from "@gpve/contracts/gen/proto/gpve/agent/v1/server_pb.ts";
import { decodeReport, type DecodedReport } from "@gpve/domain/node/decode-report.ts";
import type { RequestLogger } from "@gpve/domain/request/context.ts";
import { parseBoundedJson } from "@gpve/kit/bounded-json.ts";
import type { Clock } from "@gpve/kit/clock.ts";
import { toConnectError } from "@gpve/kit/grpc/app-error.ts";
import type { MemoryNodeBoard } from "../../application/node/board.ts";
import type { GuestMoves } from "../../application/node/guest-moves.ts";
import type { Membership } from "../../application/node/membership.ts";
import type { StorageSecrets } from "../../application/storage/storage-secrets.ts";
import { requireClock, requireSameMinor } from "../../application/node/join-checks.ts";
import { addressOf, requirePeer, type AgentPeer } from "./peer.ts";

export interface ServerServiceDeps {
  readonly membership: Membership;
  readonly moves: GuestMoves;
  readonly storageSecrets: Pick<StorageSecrets, "forNode">;
  readonly board: MemoryNodeBoard;
  readonly clock: Clock;
  readonly log: RequestLogger;
  readonly serverVersion: string;
  readonly clusterName: string;
  readonly heartbeatIntervalMs?: number;
  readonly reportIntervalMs?: number;
  /** What a further server needs; undefined: there can be none on this store. */
  readonly forServers: (() => Promise<ForServers>) | undefined;
}

/** Of what an agent says its version is. */
const MAX_VERSION = 64;

/** Secrets: given to who shows a token for a server, and to nobody else. */
export interface ForServers {
  /** Hex. */
  readonly masterKey: string;
  readonly etcd: {
    readonly endpoints: readonly string[];
    readonly caPem?: string | undefined;
    /** Where gpve runs etcd itself: servers make their certificates. */
    readonly caKeyPem?: string | undefined;
    readonly certPem?: string | undefined;
    readonly keyPem?: string | undefined;
    readonly username?: string | undefined;
    readonly password?: string | undefined;
  };
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
  const versionsOf = ({ agentVersion }: HelloRequest) => ({
    version: agentVersion.slice(0, MAX_VERSION).replaceAll(/[^ -~]/g, "?"),
    serverVersion: deps.serverVersion,
  });
  /** What cannot be worked with is shown on the board, so that people see why the node is silent. */
  const agree = (node: string, request: HelloRequest): number => {
    try {
      return agreeProtocol(AGENT_PROTOCOL, request.protocol ?? { min: 0, max: 0 });
    } catch (err) {
      board.refuse(node, { ...versionsOf(request), refused: messageOf(err) });
      throw err;
    }
  };
  return {
    join: (request, context) =>
      answer(async () => {
        agreeProtocol(AGENT_PROTOCOL, request.protocol ?? { min: 0, max: 0 });
        requireClock(`node ${request.node}`, Number(request.sentAtMs), clock.now());
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
    joinServer: (request) =>
      answer(async () => {
        requireSameMinor(request.serverVersion, deps.serverVersion);
        requireClock(request.name, Number(request.sentAtMs), clock.now());
        const { etcd, masterKey } = await requireShareable(deps.forServers);
        await membership.admitServer({ token: request.token, name: request.name });
        deps.log.info({ server: request.name }, "a further server joined");
        return {
          clusterName: deps.clusterName,
          masterKey,
          etcdEndpoints: [...etcd.endpoints],
          etcdCaPem: etcd.caPem ?? "",
          etcdCaKeyPem: etcd.caKeyPem ?? "",
          etcdCertPem: etcd.certPem ?? "",
          etcdKeyPem: etcd.keyPem ?? "",
          etcdUsername: etcd.username ?? "",
          etcdPassword: etcd.password ?? "",
          serverVersion: deps.serverVersion,
        };
      }),
    hello: (request, context) =>
      answer(async () => {
        const peer = memberOf(context, request.node);
        const protocol = agree(peer.node, request);
        const address = request.address === "" ? addressOf(context) : request.address;
        await membership.hello(peer.node, peer.fingerprint, address, request.port);
        board.hello(peer.node, { ...versionsOf(request), protocol });
        return {
          protocol,
          serverVersion: deps.serverVersion,
          clusterName: deps.clusterName,
          heartbeatIntervalMs: deps.heartbeatIntervalMs ?? 2_000,
          reportIntervalMs: deps.reportIntervalMs ?? 2_500,
        };
      }),
    goodbye: (request, context) =>
      answer(() => {
        board.goodbye(memberOf(context, request.node).node);
        return Promise.resolve({});
      }),
    heartbeat: (request, context) =>
      answer(() => {
        const peer = memberOf(context, request.node);
        board.heartbeat(peer.node);
        const lifetime = peer.notAfter - peer.notBefore;
        return Promise.resolve({
          serverTimeMs: BigInt(Math.trunc(clock.now())),
          wantsFacts: board.wantsFacts(peer.node),
          wantsHello: board.wantsHello(peer.node),
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
    handOver: (request, context) =>
      answer(async () => {
        const { node } = memberOf(context);
        return { owner: await deps.moves.handOver(node, request) };
      }),
    withdrawMove: (request, context) =>
      answer(async () => {
        const { node } = memberOf(context);
        return { owner: await deps.moves.withdraw(node, request) };
      }),
    storageSecret: ({ storage, name }, context) =>
      answer(() => {
        const { node } = memberOf(context);
        const value = deps.storageSecrets.forNode(node, storage, name);
        return Promise.resolve(given({ value }));
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

function requireShareable(forServers: ServerServiceDeps["forServers"]): Promise<ForServers> {
  if (forServers !== undefined) return forServers();
  throw new AppError(
    "feature.unsupported",
    "this server keeps its records in SQLite, which serves exactly one: move them to etcd first (./gpve cluster init)",
  );
}
