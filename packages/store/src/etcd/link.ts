// A line to one member: of our own making, or one that somebody else keeps up.
import { type Client, type Transport, createClient } from "@connectrpc/connect";
import { createGrpcTransport } from "@connectrpc/connect-node";
import { messageOf } from "@gpve/contracts/errors.ts";
import { Http2Sessions } from "@gpve/kit/grpc/http2-sessions.ts";
import type { Clock } from "@gpve/kit/clock.ts";
import { type EtcdUser, tokenAuth } from "./token-auth.ts";
import { KV, Lease, Watch } from "../gen/proto/etcdserverpb/rpc_pb.ts";

export interface TlsFiles {
  readonly ca?: string | Uint8Array;
  readonly cert?: string | Uint8Array;
  readonly key?: string | Uint8Array;
}

export interface Link {
  readonly url: string;
  /** Why it cannot be used now; undefined when it can. */
  connect(): Promise<string | undefined>;
  /** Asked anew for each call, so that a replaced connection is picked up. */
  transport(): Transport;
  close(): void;
}

interface Clients {
  readonly kv: Client<typeof KV>;
  readonly watch: Client<typeof Watch>;
  readonly lease: Client<typeof Lease>;
}

export interface Endpoint extends Clients {
  readonly url: string;
  readonly link: Link;
}

export interface LinkOptions {
  readonly tls: TlsFiles;
  readonly user?: EtcdUser | undefined;
  readonly clock: Pick<Clock, "monotonic">;
}

export function linkTo(url: string, { tls, user, clock }: LinkOptions): Link {
  // Pings find a member that is stopped or cut off while its connection looks alive.
  const session = new Http2Sessions(
    url,
    {
      pingIntervalMs: 2_000,
      pingTimeoutMs: 2_000,
      pingIdleConnection: false,
      idleConnectionTimeoutMs: 60_000,
    },
    {
      ...(tls.ca === undefined ? {} : { ca: Buffer.from(tls.ca) }),
      ...(tls.cert === undefined ? {} : { cert: Buffer.from(tls.cert) }),
      ...(tls.key === undefined ? {} : { key: Buffer.from(tls.key) }),
    },
  );
  const plain = createGrpcTransport({ baseUrl: url, sessionManager: session });
  const transport =
    user === undefined
      ? plain
      : createGrpcTransport({
          baseUrl: url,
          sessionManager: session,
          interceptors: [tokenAuth(user, () => plain, clock)],
        });
  return {
    url,
    async connect() {
      const state = await session.connect();
      return state === "open" || state === "idle" ? undefined : messageOf(session.error());
    },
    transport: () => transport,
    close: () => session.abort(),
  };
}

/** A line that somebody else keeps up; `down` says why it cannot be used now. */
export function linkOver(
  url: string,
  transport: () => Transport,
  down: () => string | undefined = () => undefined,
): Link {
  return { url, transport, connect: () => Promise.resolve(down()), close: () => undefined };
}

export function endpointOf(link: Link): Endpoint {
  let known: { readonly transport: Transport; readonly clients: Clients } | undefined;
  const now = (): Clients => {
    const transport = link.transport();
    if (known?.transport !== transport) known = { transport, clients: clientsOn(transport) };
    return known.clients;
  };
  return {
    url: link.url,
    link,
    get kv() {
      return now().kv;
    },
    get watch() {
      return now().watch;
    },
    get lease() {
      return now().lease;
    },
  };
}

function clientsOn(transport: Transport): Clients {
  return {
    kv: createClient(KV, transport),
    watch: createClient(Watch, transport),
    lease: createClient(Lease, transport),
  };
}
