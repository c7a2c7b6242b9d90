// A store that is spoken to by a socket of this machine, as those of virtual clusters are.
import { connect } from "node:net";
import { createGrpcTransport } from "@connectrpc/connect-node";
import { messageOf } from "@gpve/contracts/errors.ts";
import { Http2Sessions } from "@gpve/kit/grpc/http2-sessions.ts";
import type { Store } from "../port.ts";
import { type EtcdLimits, etcdStoreOver } from "./etcd-store.ts";
import type { Link } from "./link.ts";

export function openSocketStore(path: string, limits: EtcdLimits = {}): Store {
  return etcdStoreOver([linkToSocket(path)], limits);
}

function linkToSocket(path: string): Link {
  // The name is nobody's: where it leads is the socket.
  const url = "http://localhost";
  const session = new Http2Sessions(url, {}, { createConnection: () => connect(path) });
  const transport = createGrpcTransport({ baseUrl: url, sessionManager: session });
  return {
    url: path,
    async connect() {
      const state = await session.connect();
      return state === "open" || state === "idle" ? undefined : messageOf(session.error());
    },
    transport: () => transport,
    close: () => session.abort(),
  };
}
