// A Store behind etcd's API on a socket of its own. Over TCP callers prove themselves by certificate or the address is
// one that only they reach; a socket file belongs to whom its directory lets in.
import {
  createSecureServer,
  createServer,
  type Http2SecureServer,
  type Http2Server,
  type ServerHttp2Session,
} from "node:http2";
import type { ListenOptions, Socket } from "node:net";
import { given } from "@gpve/contracts/given.ts";
import { connectNodeAdapter } from "@connectrpc/connect-node";
import type { Interceptor } from "@connectrpc/connect";
import { type Clock, systemClock } from "@gpve/kit/clock.ts";
import type { Store } from "../port.ts";
import { kvService } from "./kv.ts";
import { memberOf } from "./member.ts";
import { plainKvCalls } from "./plain-calls.ts";
import { etcdRoutes, readMaxBytes } from "./routes.ts";

export interface EtcdListenerOptions {
  readonly store: Store;
  /** What the member is called, and what its numbers are made from. */
  readonly name: string;
  readonly listen: { readonly host: string; readonly port: number } | { readonly path: string };
  /** With a CA every caller must have a certificate of it. */
  readonly tls?: { readonly cert: string; readonly key: string; readonly ca?: string };
  readonly clock?: Clock;
  readonly progressNotifyMs?: number;
  readonly interceptors?: Interceptor[];
}

export interface EtcdListener {
  /** `http://127.0.0.1:2379`, or `unix://PATH`. */
  readonly url: string;
  /** Cuts all connections; the store stays open. */
  close(): Promise<void>;
}

export async function listenEtcd(options: EtcdListenerOptions): Promise<EtcdListener> {
  const { store, listen, clock = systemClock, progressNotifyMs, interceptors = [] } = options;
  const clientUrls: string[] = [];
  const member = memberOf(options.name, clientUrls);
  const storeOf = (): Store => store;
  // It never listens: it takes the streams that are handed to it.
  const framework = createServer(
    connectNodeAdapter({
      interceptors,
      routes: (router) => etcdRoutes(router, { storeOf, member, clock, ...given({ progressNotifyMs }) }),
    }),
  );
  const server = options.tls === undefined ? createServer() : secure(options.tls);
  const plain =
    interceptors.length === 0 ? plainKvCalls(kvService({ storeOf, member }), readMaxBytes) : undefined;
  server.on("stream", (stream, headers, ...more) => {
    if (plain?.take(stream, headers) !== true) framework.emit("stream", stream, headers, ...more);
  });
  // An answer is three frames: none of them waits until the one before was taken.
  server.on(options.tls === undefined ? "connection" : "secureConnection", (socket: Socket) => {
    socket.setNoDelay(true);
  });
  const sessions = new Set<ServerHttp2Session>();
  server.on("session", (session) => {
    sessions.add(session);
    session.on("close", () => sessions.delete(session));
    // A client that goes away in the middle of a frame is no trouble of ours.
    session.on("error", () => undefined);
  });
  const at: ListenOptions = listen;
  await new Promise<void>((resolve, reject) => {
    server.once("error", reject);
    server.listen(at, resolve);
  });
  const url = urlOf(server, listen, options.tls === undefined ? "http" : "https");
  clientUrls.push(url);
  return {
    url,
    async close() {
      for (const session of sessions) session.destroy();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}

function secure({ cert, key, ca }: NonNullable<EtcdListenerOptions["tls"]>): Http2SecureServer {
  const callers = ca === undefined ? {} : { ca, requestCert: true, rejectUnauthorized: true };
  return createSecureServer({ cert, key, minVersion: "TLSv1.2", ...callers });
}

function urlOf(
  server: Http2Server | Http2SecureServer,
  listen: EtcdListenerOptions["listen"],
  scheme: string,
): string {
  if ("path" in listen) return `unix://${listen.path}`;
  const address = server.address();
  const port = typeof address === "object" && address !== null ? address.port : listen.port;
  return `${scheme}://${listen.host}:${port}`;
}
