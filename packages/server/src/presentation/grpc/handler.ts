// The gRPC face of a server, to be hung behind its TLS listener for sessions that speak h2.
import type { Http2ServerRequest, Http2ServerResponse } from "node:http2";
import type { ConnectRouter, HandlerContext } from "@connectrpc/connect";
import { connectNodeAdapter } from "@connectrpc/connect-node";
import { ServerService } from "@gpve/contracts/gen/proto/gpve/agent/v1/server_pb.ts";
import { AppError } from "@gpve/contracts/errors.ts";
import { peerValues, requirePeer, type ReadPeer } from "./peer.ts";
import { createServerService, type ServerServiceDeps } from "./server-service.ts";

export interface ServerGrpcDeps extends ServerServiceDeps {
  readonly readPeer: ReadPeer;
  /** The Store for agents, over etcd's API; `nodeOf` names the calling node. */
  readonly storeRoutes: (router: ConnectRouter, nodeOf: (context: HandlerContext) => string) => void;
}

/** Most calls are small, and one of them (join) is everybody's to make. */
const MAX_BYTES = 64 * 1024;
const MAX_REPORT_BYTES = 16 * 1024 * 1024;
/** Of a guest with all its snapshots; the store takes no larger record from an agent. */
const MAX_CONF_BYTES = 1024 * 1024;

export type Http2Handler = (request: Http2ServerRequest, response: Http2ServerResponse) => void;

export function createServerGrpcHandler(deps: ServerGrpcDeps): Http2Handler {
  const nodeOf = (context: HandlerContext): string => {
    const peer = requirePeer(context);
    if (deps.membership.member(peer.node, peer.fingerprint) === undefined) {
      throw new AppError("access.denied", `node ${peer.node} is not a member of this cluster`);
    }
    return peer.node;
  };
  return connectNodeAdapter({
    grpc: true,
    grpcWeb: false,
    connect: false,
    readMaxBytes: MAX_BYTES,
    routes: (router) => {
      const service = createServerService(deps);
      router.service(ServerService, service);
      // In place of the one above: it grows with the guests of a node, and only members get to send it.
      router.rpc(ServerService.method.report, service.report, { readMaxBytes: MAX_REPORT_BYTES });
      router.rpc(ServerService.method.handOver, service.handOver, { readMaxBytes: MAX_CONF_BYTES });
      deps.storeRoutes(router, nodeOf);
    },
    contextValues: (request) => peerValues(request.socket, deps.readPeer),
  });
}
