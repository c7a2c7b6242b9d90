// How a server reaches the agent of a node, in one process or over gRPC: one contract.
import type { Decision } from "../access/decision.ts";

export interface AgentCall {
  /** Which method, for whom, and that it may be called. */
  readonly decision: Decision;
  /** Raw parameters, path parameters included; the agent validates. */
  readonly params: Readonly<Record<string, unknown>>;
  /** How the client sent them; PVE reads forms and JSON a little differently. Default form. */
  readonly source?: "form" | "json";
  readonly requestId: string;
  readonly clientAddress: string;
  readonly traceparent?: string;
}

export interface AgentReply {
  readonly data: unknown;
  readonly total?: number;
  readonly changes?: string;
  readonly download?: { contentType: string; fileName?: string; body: AsyncIterable<Uint8Array> };
}

/** A two-way stream of bytes to something on a node. */
export interface TunnelRequest {
  /** To what, for whom, and that it may be opened. */
  readonly decision: Decision;
  readonly params: Readonly<Record<string, unknown>>;
  readonly requestId: string;
}

export interface OpenTunnel {
  /** What the node says of it, JSON. */
  readonly opened: unknown;
  /** Ends when the other side has closed. */
  readonly output: AsyncIterable<Uint8Array>;
}

export interface AgentConnection {
  readonly node: string;
  /** Throws AppError as the agent threw it; AgentUnreachable when it is away. */
  call(call: AgentCall, signal: AbortSignal): Promise<AgentReply>;
  /** Rejects like `call`; after that the signal ends it. Absent where a connection carries no streams. */
  tunnel?(request: TunnelRequest, input: AsyncIterable<Uint8Array>, signal: AbortSignal): Promise<OpenTunnel>;
}

/** 595 connect, 596 TLS or headers, 597 body, 599 other: PVE's proxy codes. */
export class AgentUnreachable extends Error {
  readonly status: 595 | 596 | 597 | 599;
  constructor(status: 595 | 596 | 597 | 599, message: string, options?: ErrorOptions) {
    super(message, options);
    this.name = "AgentUnreachable";
    this.status = status;
  }
}

export interface AgentDirectory {
  /** undefined = no such node in the cluster. */
  connection(node: string): AgentConnection | undefined;
}
