// One mutually authenticated HTTP/2 connection to a peer that comes back by itself: opened on demand, proven
// alive by pings, replaced when it is dead. A cut cable shows within seconds instead of TCP's many minutes.
import type { PeerCertificate } from "node:tls";
import { given } from "@gpve/contracts/given.ts";
import { Code, ConnectError, type Transport } from "@connectrpc/connect";
import { createGrpcTransport } from "@connectrpc/connect-node";
import type { Clock } from "../clock.ts";
import { Http2Sessions } from "./http2-sessions.ts";

export interface ChannelTls {
  readonly caPem: string;
  /** Absent only where the peer asks for no certificate (join). */
  readonly certPem?: string;
  readonly keyPem?: string;
}

export interface ChannelOptions {
  /** "https://10.0.0.2:8444" */
  readonly url: string;
  readonly tls: ChannelTls;
  readonly clock: Clock;
  /** Decides whether the peer, whose chain is already verified, is the one that was meant. */
  readonly acceptPeer?: (host: string, certificate: PeerCertificate) => Error | undefined;
  readonly connectTimeoutMs?: number;
  readonly pingIntervalMs?: number;
  readonly pingTimeoutMs?: number;
}

export interface Channel {
  readonly transport: Transport;
  /** Makes sure a living connection is there. Throws the reason, Node's error as its cause. */
  connect(): Promise<void>;
  close(): void;
}

export function createChannel(options: ChannelOptions): Channel {
  const { clock, connectTimeoutMs = 5_000 } = options;
  const accept = options.acceptPeer;
  const manager = new Http2Sessions(
    options.url,
    {
      pingIntervalMs: options.pingIntervalMs ?? 2_000,
      pingTimeoutMs: options.pingTimeoutMs ?? 2_000,
      idleConnectionTimeoutMs: 10 * 60_000,
    },
    {
      ca: options.tls.caPem,
      minVersion: "TLSv1.3",
      rejectUnauthorized: true,
      ...given({ cert: options.tls.certPem, key: options.tls.keyPem, checkServerIdentity: accept }),
    },
  );
  return {
    transport: createGrpcTransport({ baseUrl: options.url, sessionManager: manager }),
    async connect() {
      const cancel = clock.after(connectTimeoutMs, () =>
        manager.abort(new ConnectError("Connection timed out", Code.DeadlineExceeded)),
      );
      try {
        if ((await manager.connect()) !== "error") return;
      } finally {
        cancel();
      }
      const reason = manager.error();
      throw reason instanceof Error
        ? reason
        : new ConnectError(`cannot connect to ${options.url}`, Code.Unavailable);
    },
    close() {
      manager.abort();
    },
  };
}

/** The innermost Node error code of a failure ("ECONNREFUSED"), if there is one. */
export function nodeErrorCode(err: unknown): string | undefined {
  let code: string | undefined;
  for (let current: unknown = err, depth = 0; current instanceof Error && depth < 8; depth++) {
    if ("code" in current && typeof current.code === "string") code = current.code;
    current = current.cause;
  }
  return code;
}

/** The innermost message of a failure: what the library under the libraries said. */
export function rootMessage(err: unknown): string {
  let message = String(err);
  for (let current: unknown = err, depth = 0; current instanceof Error && depth < 8; depth++) {
    message = current instanceof ConnectError ? current.rawMessage : current.message;
    current = current.cause;
  }
  return message;
}
